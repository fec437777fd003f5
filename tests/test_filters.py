"""Allow lists, block lists and categories: always n items where n exist; reasons that add up."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import vitalrank as vr
from vitalrank.serving import ItemTable, recommend_all


@pytest.fixture(scope="module")
def log():
    made = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    return vr.Interactions.from_arrays(
        [f"u{u}" for u in made.user_ids[made.users]], [f"i{i}" for i in made.item_ids[made.items]]
    )


@pytest.fixture(scope="module", params=["mf", "itemknn", "ease", "mostpopular"])
def model(request, log):
    if request.param == "mf":
        return vr.MF(dim=8).fit(log, vr.Uniform(), epochs=3, seed=0)
    return {"itemknn": vr.ItemKNN, "ease": vr.EASE, "mostpopular": vr.MostPopular}[request.param]().fit(log)


@pytest.fixture(scope="module")
def table(log):
    ids = log.item_ids.tolist()
    return ItemTable(
        ids, {"genre": ["ab"[k % 2] for k in range(len(ids))], "title": [f"T{one}" for one in ids]}, "title"
    )


def expected(model, user, n, allowed, left_out):
    """By definition: all scores, what may not be returned struck out, sorted."""
    log = model.train
    scores = model.scores(log.user_index([user]), 0, log.n_items)[0].copy()
    out = set(left_out)
    places = [p for p, one in enumerate(log.item_ids) if one in allowed and one not in out]
    places.sort(key=lambda p: (-scores[p], p))
    return log.item_ids[places[:n]].tolist()


def seen_by(log, user):
    row = log.user_index([user])[0]
    return log.item_ids[log.items[log.indptr[row] : log.indptr[row + 1]]].tolist()


def test_every_filter_gives_what_its_definition_says(model, log, table):
    every, users = log.item_ids.tolist(), log.user_ids[:5].tolist()
    allowed, blocked, own = every[5:40], every[10:20], {users[0]: every[20:30], users[3]: [every[39]]}
    ids, scores = model.recommend(users, n=6, items=allowed, exclude_items=blocked, per_user_exclude=own)
    for user, row, values in zip(users, ids.tolist(), scores, strict=True):
        left_out = [*seen_by(log, user), *blocked, *own.get(user, ())]
        wanted = expected(model, user, 6, allowed, left_out)
        assert [one for one in row if one is not None] == wanted
        assert np.isneginf(values[len(wanted) :]).all()
    ids, _ = model.recommend(users, n=4, seen=True, within={"genre": "b"}, table=table)
    for user, row in zip(users, ids.tolist(), strict=True):
        assert row == expected(model, user, 4, every[1::2], [])


def test_a_bare_column_keeps_to_the_category_of_what_is_asked_about(model, log, table):
    items = log.item_ids[:4].tolist()
    ids, _ = model.similar_items(items, n=5, within="genre", table=table)
    for item, row in zip(items, ids.tolist(), strict=True):
        assert table.values("genre", row) == table.values("genre", [item]) * 5
        assert item not in row
    ids, _ = model.fold_in([[items[0]], [items[1]]], n=3, within="genre", table=table)
    assert [table.values("genre", row) for row in ids.tolist()] == [["a"] * 3, ["b"] * 3]


def test_one_history_gives_what_it_gives_among_many(model, log):
    histories = [log.item_ids[a : a + 4].tolist() for a in range(0, 20, 4)]
    ids, scores = model.fold_in(histories, n=7, exclude_items=[log.item_ids[30]])
    for history, row, values in zip(histories, ids, scores, strict=True):
        one, own = model.fold_in(history, n=7, exclude_items=[log.item_ids[30]])
        assert one.tolist() == row.tolist()
        np.testing.assert_array_equal(own, values)


def test_unknown_items_of_a_history_are_refused_or_counted(model, log, caplog):
    with pytest.raises(vr.UnknownIdError, match="'new'"):
        model.fold_in([["i1", "new"]])
    ids, _ = model.fold_in([["i1", "new"], ["newer"]], n=3, unknown="skip")
    assert "2 of 3 items of the histories" in caplog.text
    assert ids[0].tolist() == model.fold_in(["i1"], n=3)[0].tolist()
    popular = np.argsort(-log.item_degree, kind="stable")[:3]
    assert ids[1].tolist() == log.item_ids[popular].tolist()


def test_known_negatives_are_left_out_if_asked(log):
    user = log.user_ids[0]
    first = vr.MostPopular().fit(log).recommend(user, n=1)[0][0]
    marked = log.with_negatives(vr.Interactions.from_arrays([user], [first]))
    model = vr.MostPopular().fit(marked)
    assert model.recommend(user, n=1)[0][0] == first
    assert first not in model.recommend(user, n=50, exclude_negatives=True)[0].tolist()


def test_filters_hold_for_unknown_users_too(model, log):
    ids, _ = model.recommend("nobody", n=3, unknown="popular", items=["i3", "i4", "i5"], exclude_items=["i4"])
    assert set(ids.tolist()) == {"i3", "i5", None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": ["none", "of them"]}, "items leave none of the 50 items"),
        ({"items": []}, "items leave none of the 50 items"),
        ({"items": "i1"}, "give a list of item ids"),
        ({"exclude_items": [7]}, "the item ids of this log are strings"),
        ({"per_user_exclude": [["i1"]]}, "1 lists for 2 asked about"),
        ({"seen": "no"}, "seen is 'no'"),
        ({"within": "genre"}, "give table="),
        ({"itmes": ["i1"]}, "no filter 'itmes'"),
        ({"exclude_items": ["i1"], "device": "cuda"}, "filters rank on the CPU"),
    ],
)
def test_a_wrong_filter_is_one_sentence(log, arguments, message):
    with pytest.raises(vr.VitalrankError, match=message):
        vr.MostPopular().fit(log).recommend(log.user_ids[:2], **arguments)


def test_a_category_that_no_item_has(log, table):
    with pytest.raises(vr.SettingError, match="no item of the log has 'c' in column 'genre'; it holds a, b"):
        vr.MostPopular().fit(log).recommend("u1", within={"genre": "c"}, table=table)


def test_reasons_add_up_to_the_score(model, log):
    user, item = log.user_ids[0], log.item_ids[7]
    why = model.explain(user, item)
    score = model.scores(log.user_index([user]), 7, 8)[0, 0]
    assert why.score == pytest.approx(score)
    assert why.contributions.sum() + why.rest == pytest.approx(score, rel=1e-5, abs=1e-6)
    assert sorted(why.items.tolist()) == sorted(seen_by(log, user))
    assert (np.diff(why.contributions) <= 0).all()
    if isinstance(model, vr.ItemKNN | vr.EASE):
        assert why.rest == 0


def test_reasons_of_solved_vectors_leave_little_rest(log):
    model = vr.ALS(dim=8, reg=1.0).fit(log)
    for user in log.user_ids[:5]:
        why = model.explain(user, model.recommend(user, n=1)[0][0])
        assert abs(why.rest) < 0.1 * why.score


@pytest.mark.parametrize("name", ["mf", "als", "lightgcn"])
def test_reasons_of_a_folded_in_history_leave_no_rest(name, log):
    if name == "lightgcn":
        pytest.importorskip("torch")
    options = {} if name == "als" else {"sampler": vr.Uniform(), "epochs": 3, "seed": 0}
    model = vr.models.model_class(name)(dim=8).fit(log, **options)
    history = log.item_ids[:4].tolist()
    why = vr.serving.explain_history(model, history, log.item_ids[9])
    assert why.contributions.sum() == pytest.approx(why.score, rel=0.05, abs=1e-3)


def test_an_item_table_may_hold_the_ids_of_the_log():
    table = ItemTable([8, 7], {"genre": ["SF", "Crime"]})
    assert table.values("genre", [7, "8"]) == ["Crime", "SF"]
    with pytest.raises(vr.SettingError, match="has 1 values for 2 ids"):
        ItemTable([8, 7], {"genre": ["SF"]})


def test_an_item_table_is_read_from_files(tmp_path):
    (tmp_path / "items.tsv").write_text('item\ttitle\tgenre\n007\t"A, B"\tx\n8\t\ty\n')
    table = ItemTable.read(tmp_path / "items.tsv")
    assert table.names(["007", "8", "9"]) == ["A, B", "", ""]
    assert table.values("genre", ["8"]) == ["y"]
    for text, message in (("", "not a table of items"), ("a,a\n1,2\n", "each its own")):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(vr.DataError, match=message):
            ItemTable.read(tmp_path / "bad.csv")
    with pytest.raises(vr.DataError, match="no such file"):
        ItemTable.read(tmp_path / "none.csv")


def test_lists_for_everybody_are_written_in_shards(model, log, tmp_path):
    whole, rows = tmp_path / "all.parquet", []
    count = recommend_all(model, whole, n=5)
    for shard in ("1/3", "2/3", "3/3"):
        recommend_all(model, tmp_path / "part.parquet", n=5, shard=shard)
        rows += pq.read_table(tmp_path / "part.parquet").to_pylist()
    table = pq.read_table(whole).to_pylist()
    assert table == rows
    assert len(table) == count
    ids, _ = model.recommend(log.user_ids[7], n=5)
    assert [row["item"] for row in table if row["user"] == log.user_ids[7]] == [one for one in ids if one is not None]
    (tmp_path / "mine.parquet").write_text("my own")
    with pytest.raises(vr.StorageError, match="was not written by vitalrank"):
        recommend_all(model, tmp_path / "mine.parquet")
    with pytest.raises(vr.SettingError, match="is not I/N"):
        recommend_all(model, whole, shard="4/3")
