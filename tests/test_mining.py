"""Mined negatives: the rule written out, any form of input, limits with a sampler, bounded memory, the command."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import vitalrank as vr
from commands import complaint, told
from reference.mining import mined as plain
from vitalrank.errors import DataError, SettingError, StorageError
from vitalrank.mining import candidates, mine_to
from vitalrank.mining.negatives import _repeated

VALUES = {"absolute_margin": 1.0, "relative_margin": 0.25, "max_score": 3.0, "min_score": -2.0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    items = rng.normal(size=(300, 8)).astype(np.float32)
    positives = rng.integers(0, 300, 60)
    return (items[positives] + 0.5 * rng.normal(size=(60, 8))).astype(np.float32), items, positives


def cosines(queries, items):
    unit = [table / np.linalg.norm(table, axis=1, keepdims=True) for table in (queries, items)]
    return unit[0] @ unit[1].T


# ------------------------------------------------------------------------------------------------------ the rule


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 1000),
    st.integers(1, 4),
    st.integers(0, 4),
    st.none() | st.integers(8, 20),
    st.sets(st.sampled_from(sorted(VALUES))),
    st.integers(1, 3),
)
def test_negatives_are_those_of_the_rule_written_out(seed, k, range_min, range_max, limits, n_positives):
    rng = np.random.default_rng(seed)
    # whole numbers, so that scores are exact and many of them equal
    queries, items = (rng.integers(-2, 3, size=(rows, 3)).astype(np.float32) for rows in (7, 25))
    positives = [rng.choice(25, n_positives, replace=False).tolist() for _ in range(7)]
    chosen = {
        name: {"absolute_margin": 1.0, "relative_margin": 0.25, "max_score": 3.0, "min_score": -2.0}[name]
        for name in limits
    }
    found = vr.mine(queries, items, positives, k, range_min=range_min, range_max=range_max, similarity="dot", **chosen)
    for query, positive, row in zip(found.queries, found.positives, found.negatives, strict=True):
        assert positive in positives[query]
        scores = (queries[query] @ items.T).tolist()
        wanted = plain(scores, positives[query], k, range_min, range_max, chosen)
        assert row.tolist() == wanted + [-1] * (k - len(wanted))


def test_a_relative_margin_lies_below_a_positive_that_scores_below_0():
    queries, items = np.ones((1, 1), np.float32), np.array([[-1.0], [-0.95], [-1.05], [-1.2]], np.float32)
    found = vr.mine(queries, items, [[0]], k=3, relative_margin=0.1, similarity="dot")
    assert found.negatives.tolist() == [[3, -1, -1]]


@pytest.mark.parametrize("block", [7, 64, 1 << 14])
def test_blocks_change_nothing(data, block, monkeypatch):
    whole = vr.mine(*data, k=5, range_min=2)
    monkeypatch.setattr(candidates, "ITEMS", block)
    found = vr.mine(*data, k=5, range_min=2)
    np.testing.assert_array_equal(found.negatives, whole.negatives)


def test_scores_are_cosines_and_best_first(data):
    queries, items, positives = data
    found, scores = vr.mine(*data, k=3), cosines(queries, items)
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, found.negatives, 1), rtol=1e-5)
    np.testing.assert_allclose(found.positive_scores, scores[np.arange(60), positives], rtol=1e-5)
    assert (np.diff(found.scores) <= 0).all()
    assert not (found.negatives == positives[:, None]).any()


def test_queries_left_short_are_counted(data):
    queries, items, positives = data
    found = vr.mine(queries, items, positives, k=4, max_score=0.0, range_max=300)
    assert found.summary.short == 0
    few = vr.mine(queries, items, positives, k=4, max_score=-0.9, range_max=300)
    lacking = (few.negatives < 0).any(1)
    assert few.summary.short == lacking.sum() > 0
    assert few.summary.negatives == (few.negatives >= 0).sum()
    assert np.isneginf(few.scores[few.negatives < 0]).all()


# -------------------------------------------------------------------------------------------------------- samplers


SAMPLERS = [vr.Uniform(), vr.Popularity(), vr.DNS(candidates=8), vr.VINS(margin=0.1), vr.LFMD()]


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_draws_are_distinct_no_positives_and_within_the_limits(data, sampler, similarity):
    queries, items, positives = data
    options = {"sampler": sampler, "similarity": similarity, "relative_margin": 0.1, "min_score": -0.5}
    found = vr.mine(*data, k=3, seed=1, **options)
    scores = cosines(queries, items) if similarity == "cosine" else queries @ items.T
    for query, row, values in zip(found.queries, found.negatives, found.scores, strict=True):
        drawn = row[row >= 0]
        assert len(set(drawn)) == len(drawn)
        assert positives[query] not in drawn
        np.testing.assert_allclose(values[row >= 0], scores[query, drawn], rtol=1e-4, atol=1e-5)
        limit = np.float32(0.9) * scores[query, positives[query]] + 1e-5
        assert ((values[row >= 0] <= limit) & (values[row >= 0] >= -0.5 - 1e-5)).all()
    again = vr.mine(*data, k=3, seed=1, threads=1, **options)
    np.testing.assert_array_equal(again.negatives, found.negatives)
    assert not np.array_equal(vr.mine(*data, k=3, seed=2, **options).negatives, found.negatives)


def test_draws_do_not_depend_on_the_blocks(data, monkeypatch):
    whole = vr.mine(*data, k=3, sampler=vr.DNS())
    monkeypatch.setattr("vitalrank.mining.mining.QUERIES", 7)
    np.testing.assert_array_equal(vr.mine(*data, k=3, sampler=vr.DNS()).negatives, whole.negatives)


@pytest.mark.parametrize("sampler", [None, vr.DNS(candidates=200)], ids=repr)
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_queries_without_positives_move_no_others(data, sampler, similarity, monkeypatch):
    queries, items, positives = data
    pairs = np.stack([np.arange(5, 60, 2), positives[5::2]], 1)  # none of the first five, then of every second one
    monkeypatch.setattr("vitalrank.mining.mining.QUERIES", 16)
    found = vr.mine(queries, items, pairs, k=2, sampler=sampler, similarity=similarity)
    scores = cosines(queries, items) if similarity == "cosine" else queries @ items.T
    np.testing.assert_array_equal(found.queries, pairs[:, 0])
    np.testing.assert_allclose(found.scores, scores[found.queries[:, None], found.negatives], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.positive_scores, scores[found.queries, found.positives], rtol=1e-4, atol=1e-5)


def test_a_hard_sampler_finds_harder_negatives_than_a_uniform_one(data):
    easy, hard = (vr.mine(*data, k=2, sampler=sampler).scores.mean() for sampler in (vr.Uniform(), vr.DNS(16)))
    assert hard > easy + 0.1


# ----------------------------------------------------------------------------------------------------------- files


def as_parquet(path, table):
    vectors = pa.array(table.tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": np.arange(len(table)), "vector": vectors}), path)


WRITERS = {
    ".npy": np.save,
    ".npz": lambda path, table: np.savez(path, table),
    ".safetensors": lambda path, table: save_file({"v": table}, path),
    ".parquet": as_parquet,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_vectors_in_files(data, kind, tmp_path):
    queries, items, positives = data
    for name, table in (("queries", queries), ("items", items)):
        WRITERS[kind](tmp_path / f"{name}{kind}", table)
    pq.write_table(pa.table({"query": np.arange(60), "item": positives}), tmp_path / "positives.parquet")
    found = vr.mine(tmp_path / f"queries{kind}", tmp_path / f"items{kind}", tmp_path / "positives.parquet", k=3)
    np.testing.assert_array_equal(found.negatives, vr.mine(*data, k=3).negatives)


def test_forms_of_positives(data):
    queries, items, positives = data
    wanted = vr.mine(*data, k=2)
    pairs = np.column_stack([np.arange(60), positives])[::-1]
    for given_ in (positives.tolist(), [[item] for item in positives], pairs):
        np.testing.assert_array_equal(vr.mine(queries, items, given_, k=2).negatives, wanted.negatives)


def test_float16_and_torch_tensors(data):
    torch = pytest.importorskip("torch")
    queries, items, positives = data
    wanted = vr.mine(queries.astype(np.float16), items.astype(np.float16), positives, k=2)
    found = vr.mine(torch.tensor(queries).half(), torch.tensor(items).half(), torch.tensor(positives), k=2)
    np.testing.assert_array_equal(found.negatives, wanted.negatives)


def test_a_file_of_triplets_holds_what_is_mined(data, tmp_path):
    found = vr.mine(*data, k=3, absolute_margin=0.2)
    summary = mine_to(tmp_path / "out.parquet", *data, k=3, absolute_margin=0.2)
    table = pq.read_table(tmp_path / "out.parquet").to_pydict()
    row, column = np.nonzero(found.negatives >= 0)
    assert table["query"] == found.queries[row].tolist()
    assert table["positive"] == found.positives[row].tolist()
    assert table["negative"] == found.negatives[row, column].tolist()
    np.testing.assert_array_equal(np.float32(table["score"]), found.scores[row, column])
    assert summary == found.summary
    mine_to(tmp_path / "out.parquet", *data, k=1)
    pq.write_table(pq.read_table(tmp_path / "out.parquet").replace_schema_metadata(), tmp_path / "out.parquet")
    with pytest.raises(StorageError, match="exists"):
        mine_to(tmp_path / "out.parquet", *data, k=3)
    mine_to(tmp_path / "out.parquet", *data, k=1, force=True)


def test_memory_does_not_grow_with_the_tables(tmp_path):
    """Of tables of 26 MB, and 240 MB of scores, no more than some blocks are held."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "queries.npy", rng.normal(size=(600, 64)).astype(np.float32))
    np.save(tmp_path / "items.npy", rng.normal(size=(100_000, 64)).astype(np.float32))
    positives = rng.integers(0, 100_000, 600)
    tracemalloc.start()
    try:
        mine_to(tmp_path / "out.parquet", tmp_path / "queries.npy", tmp_path / "items.npy", positives, k=5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 130e6


# -------------------------------------------------------------------------------------------------------- mistakes


MISTAKES = [
    ({"positives": [1, 2]}, "give one item for each query"),
    ({"positives": np.full(60, 300)}, "positives name item 300"),
    ({"positives": np.zeros((0, 2), np.int64)}, "positives are empty"),
    ({"items": np.ones((300, 7), np.float32)}, "8 wide but items 7"),
    ({"items": np.ones(300, np.float32)}, r"items are float32 \(300,\)"),
    ({"queries": np.full((60, 8), np.nan, np.float32)}, "queries hold values that are NaN"),
    ({"queries": "there.txt"}, "no known kind"),
    ({"queries": "missing.npy"}, "missing.npy: no such file"),
    ({"positives": "missing.parquet"}, "missing.parquet: no such file"),
]


@pytest.mark.parametrize(("changes", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_wrong_data(data, changes, said):
    with pytest.raises(DataError, match=said):
        vr.mine(**{**dict(zip(("queries", "items", "positives"), data, strict=True)), **changes})


def test_wrong_settings(data):
    with pytest.raises(SettingError, match="leaves fewer than k=3"):
        vr.mine(*data, k=3, range_min=2, range_max=4)
    with pytest.raises(SettingError, match="are for mining by rank"):
        vr.mine(*data, sampler=vr.DNS(), range_min=2)
    with pytest.raises(SettingError, match="sampler is of type str"):
        vr.mine(*data, sampler="dns")
    with pytest.raises(SettingError, match="similarity"):
        vr.mine(*data, similarity="euclid")


# ----------------------------------------------------------------------------------------------------- the command


def test_the_command(data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, array in zip(("queries", "items", "positives"), data, strict=True):
        np.save(f"{name}.npy", array)
    files = ("queries.npy", "items.npy", "positives.npy")
    said = told(capsys, "mine", *files, "out.parquet", "--k", "3", "--range-min", "2", "--relative-margin", "0.05")
    wanted = vr.mine(*data, k=3, range_min=2, relative_margin=0.05)
    assert said == {
        "file": "out.parquet",
        "pairs": 60,
        "negatives": wanted.summary.negatives,
        "short": wanted.summary.short,
    }
    said = told(capsys, "mine", *files, "drawn.parquet", "--sampler", "dns", "--set", "candidates=4", "--seed", "3")
    assert pq.read_table("drawn.parquet").num_rows == said["negatives"] == 60
    Path("mine.parquet").write_text("mine")
    assert "exists" in complaint(capsys, "mine", *files, "mine.parquet")
    assert "--set is for a sampler" in complaint(capsys, "mine", *files, "new.parquet", "--set", "candidates=4")
    assert "also read as input" in complaint(capsys, "mine", *files, "items.npy", "--force")


def header_of(path, change):
    """A safetensors file whose header says something else."""
    save_file({"queries": np.eye(4, dtype=np.float32)}, path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["queries"] |= change
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [4, 4.0]},
        {"shape": [2**40, 2**40]},
        {"shape": [-4, -4]},
        {"shape": None},
        {"shape": [True, 16]},
        {"data_offsets": [0, 2**40]},
        {"data_offsets": [-8, 56]},
        {"data_offsets": "ab"},
        {"dtype": []},
        {"dtype": "F64"},
    ],
)
def test_a_header_that_lies_is_one_sentence(tmp_path, change):
    path = tmp_path / "a.safetensors"
    header_of(path, change)
    with pytest.raises(DataError) as found:
        vr.mine(path, np.eye(4), [0, 1, 2, 3])
    assert str(found.value).isprintable()


def test_files_that_are_not_what_their_names_say_are_one_sentence(tmp_path):
    np.savez(tmp_path / "a.npz", queries=np.eye(4))
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(content[:150] + bytes([content[150] ^ 255]) + content[151:])
    np.save(tmp_path / "b.npy", np.eye(4))
    (tmp_path / "b.npy").write_bytes((tmp_path / "b.npy").read_bytes().replace(b"'fortran_order'", b"'fortran_order'("))
    rows = [[1.0, 2.0], None, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0]]  # as many numbers as four rows of two
    pq.write_table(pa.table({"vector": rows}), tmp_path / "c.parquet")
    for name in ("a.npz", "b.npy", "c.parquet"):
        with pytest.raises(DataError):
            vr.mine(tmp_path / name, np.eye(4), [0, 1, 2, 3])


@pytest.mark.parametrize("item", [None, 0.5, "x", True, 2**70, []])
def test_positives_are_whole_numbers(item):
    with pytest.raises(DataError):
        vr.mine(np.eye(3), np.eye(3), [[item]] * 3)


def test_more_negatives_than_memory_holds_are_refused():
    with pytest.raises(vr.SettingError, match="GiB are free"):
        vr.mine(np.eye(3), np.eye(3), [0, 1, 2], k=2**31 - 1)


def test_a_draw_counts_once_however_often_it_comes():
    ids = np.array([[3, 1, 3, 2, 1, -1, -1], [0, 0, 0, 1, 2, 3, 4]])
    assert np.flatnonzero(_repeated(ids)[0]).tolist() == [2, 4, 6]
    assert np.flatnonzero(_repeated(ids)[1]).tolist() == [1, 2]
