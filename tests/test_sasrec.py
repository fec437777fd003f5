"""SASRec and modules that score all positions: windows, causality, padding, gradients by hand, learning."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import vitalrank as vr
from commands import QUICK, told, write_log
from vitalrank.config import TrainConfig
from vitalrank.engines.torch_rows import windows_of
from vitalrank.errors import SettingError
from vitalrank.samplers.adapter import SamplerAdapter

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=12, items=15, interactions=70, seed=3)


def lively(model, log, **options):
    """The model's engine, with values large enough that every part of the score matters."""
    config = TrainConfig(**{**model.defaults, **options})
    engine = model.build(log, vr.Uniform().bind(log, seed=config.seed), config)
    torch.manual_seed(1)
    for parameter in model.network.parameters():
        nn.init.normal_(parameter, std=0.6)
    return engine


# ------------------------------------------------------------------------------------------------------- windows


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 5), st.data())
def test_windows_hold_every_item_but_the_first_once(degrees, length, data):
    usable = np.array(data.draw(st.lists(st.booleans(), min_size=len(degrees), max_size=len(degrees))))
    indptr = np.r_[0, np.cumsum(degrees)]
    first, end = windows_of(indptr, usable, length)
    assert ((end - first >= 1) & (end - first <= length)).all()
    rows = [row for a, b in zip(first, end, strict=True) for row in range(a, b)]
    begins = zip(indptr[:-1], indptr[1:], usable, strict=True)
    assert sorted(rows) == [row for a, b, used in begins if used for row in range(a + 1, b)]


def test_an_epoch_visits_every_positive_once_with_the_items_before_it(log):
    model = vr.SASRec(dim=4, length=3, dropout=0.0)
    engine = lively(model, log, batch=4)
    seen = []
    sampler = engine._sampler
    engine._sampler = SamplerAdapter(lambda **call: seen.append(call) or sampler(**call), 0, log.n_items)
    totals = engine.run_epoch(1, lambda share: 0.0, lambda totals: None)
    users, positives = (torch.cat([call[name] for call in seen]).tolist() for name in ("users", "positives"))
    firsts = set(log.indptr[:-1].tolist())
    wanted = [(int(log.users[row]), int(log.items[row])) for row in range(len(log)) if row not in firsts]
    assert sorted(zip(users, positives, strict=True)) == sorted(wanted)
    assert (totals.positives, totals.without_history) == (len(log), log.n_users)
    for call in seen:
        for user, positive, query in zip(call["users"], call["positives"], call["queries"], strict=True):
            history = log.items[log.indptr[user] : log.indptr[user + 1]].tolist()
            after = history.index(positive)
            inside = (len(history) - 1 - after) % 3  # steps from the end of its window
            first = max(after + inside - 2, 1)  # first positive of the window, which is aligned with the end
            before = history[first - 1 : after]
            torch.testing.assert_close(query, torch.from_numpy(model.query_of(np.array(before))))


def test_users_who_have_seen_everything_or_one_item_are_left_out():
    log = vr.Interactions.from_arrays([1, 1, 1, 2, 3, 3], [7, 8, 9, 7, 7, 8])
    record = vr.SASRec(dim=4, length=3).fit(log, vr.Uniform(), epochs=1).history[0]
    assert (record["skipped"], record["without_history"]) == (3, 2)


# --------------------------------------------------------------------------------------------- causality, padding


def test_later_items_do_not_change_earlier_queries(log):
    model = vr.SASRec(dim=6, length=8, heads=2)
    lively(model, log)
    network = model.network.eval()
    one = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    with torch.no_grad():
        for position in range(8):
            other = one.clone()
            other[0, position:] = 10
            before = network.encode_positions(one[:, 0], one)[:, :position]
            torch.testing.assert_close(network.encode_positions(one[:, 0], other)[:, :position], before)
            after = network.encode_positions(one[:, 0], other)[:, position]
            assert not torch.allclose(after, network.encode_positions(one[:, 0], one)[:, position])


def test_padding_changes_nothing(log):
    model = vr.SASRec(dim=6, length=8)
    lively(model, log)
    network = model.network.eval()
    short, padded = torch.tensor([[3, 1, 4]]), torch.tensor([[3, 1, 4, -1, -1, -1]])
    with torch.no_grad():
        whole = network.encode_positions(short[:, 0], short)
        torch.testing.assert_close(network.encode_positions(short[:, 0], padded)[:, :3], whole)
        torch.testing.assert_close(network.encode(short[:, 0], padded), whole[:, 2])
        assert not network.encode(short[:, 0], torch.full((1, 6), -1)).any()


def test_rows_of_items_that_no_window_holds_stay(log):
    untouched = vr.Interactions.from_arrays([1, 1, 1, 2, 2, 2, 3], [1, 2, 3, 2, 3, 4, 0])  # item 0: of one first row
    model = vr.SASRec(dim=4, length=3)
    sampler = vr.Uniform().bind(untouched, allowed=np.arange(1, untouched.n_items))
    engine = model.build(untouched, sampler, TrainConfig(**model.defaults))
    before = model.item_table.copy()
    for epoch in range(1, 4):
        engine.run_epoch(epoch, lambda share: 0.1, lambda totals: None)
    np.testing.assert_array_equal(model.item_table[0], before[0])
    assert not np.array_equal(model.item_table[1], before[1])


# ------------------------------------------------------------------------------------- scores written out by hand


def plain_norm(p, name, x):
    centred = x - x.mean()
    return centred / np.sqrt((centred**2).mean() + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def plain_linear(p, name, x):
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"]


def plain_query(p, items, layers, heads):
    """The query after the last of these items, position by position."""
    d = p["items.weight"].shape[1]
    xs = [p["items.weight"][item] * np.sqrt(d) + p["positions"][t] for t, item in enumerate(items)]
    for block in (f"blocks.{number}" for number in range(layers)):
        normed = [plain_norm(p, f"{block}.norm_attention", x) for x in xs]
        q = [plain_linear(p, f"{block}.of_query", x) for x in normed]
        k, v = ([plain_linear(p, f"{block}.of_{what}", x) for x in xs] for what in ("key", "value"))
        out = []
        for t in range(len(xs)):
            mixed = []
            for head in np.split(np.arange(d), heads):
                logits = np.array([q[t][head] @ k[s][head] for s in range(t + 1)]) / np.sqrt(len(head))
                shares = np.exp(logits) / np.exp(logits).sum()
                mixed.append(sum(share * v[s][head] for s, share in enumerate(shares)))
            x = plain_norm(
                p, f"{block}.norm_pointwise", normed[t] + plain_linear(p, f"{block}.out", np.concatenate(mixed))
            )
            hidden = np.maximum(plain_linear(p, f"{block}.hidden", x), 0)
            out.append(x + plain_linear(p, f"{block}.last", hidden))
        xs = out
    return plain_norm(p, "norm", xs[-1])


def weights_of(model):
    return {name: value.numpy().astype(np.float64) for name, value in model.network.state_dict().items()}


def test_scores_equal_those_written_out_by_hand(log):
    model = vr.SASRec(dim=4, length=5, layers=2, heads=2)
    lively(model, log)
    model.release_training_state()
    p = weights_of(model)
    found = model.scores(np.arange(log.n_users), 0, log.n_items)
    for user in range(log.n_users):
        query = plain_query(p, log.items[log.indptr[user] : log.indptr[user + 1]][-5:], 2, 2)
        np.testing.assert_allclose(found[user], p["items.weight"] @ query, rtol=2e-3, atol=2e-4)


def test_a_step_moves_by_the_gradient_of_the_loss_written_out_by_hand():
    log = vr.datasets.synthetic(users=6, items=12, interactions=34, seed=1)
    model, reg = vr.SASRec(dim=4, length=4, layers=1, heads=2, dropout=0.0), 0.05
    engine = lively(model, log, batch=len(log), optimizer="sgd", reg=reg, loss="bpr")
    model.network.clip = None
    before, seen, sampler = weights_of(model), [], engine._sampler
    engine._sampler = SamplerAdapter(
        lambda **call: seen.append((call, sampler(**call))) or seen[-1][1], seed=0, n_items=log.n_items
    )
    engine.run_epoch(1, lambda share: 1.0, lambda totals: None)
    ((call, draw),) = seen
    triples = list(zip(call["users"].tolist(), call["positives"].tolist(), draw.ids[:, 0].tolist(), strict=True))

    def loss(p):
        total = 0.0
        for user, i, j in triples:
            history = log.items[log.indptr[user] : log.indptr[user + 1]].tolist()
            after = history.index(i)
            first = len(history) - 4 * -(-(len(history) - after) // 4)  # of its window, which ends with the history
            query = plain_query(p, history[max(first, 1) - 1 : after], 1, 2)
            table = p["items.weight"]
            total += np.log1p(np.exp(-query @ (table[i] - table[j])))
            total += reg / 2 * ((table[i] ** 2).sum() + (table[j] ** 2).sum())
        return total

    after, rng = weights_of(model), np.random.default_rng(0)
    for parameter, values in before.items():
        share = 1.0 if parameter == "items.weight" else 1.0 / len(triples)
        for flat in rng.choice(values.size, min(values.size, 4), replace=False):
            place, sides = np.unravel_index(flat, values.shape), []
            for change in (1e-5, -1e-5):
                bent = {**before, parameter: values.copy()}
                bent[parameter][place] += change
                sides.append(loss(bent))
            slope = share * (sides[0] - sides[1]) / 2e-5
            assert values[place] - after[parameter][place] == pytest.approx(slope, rel=2e-3, abs=3e-4), parameter


# ------------------------------------------------------------------------------------------------------- learning


@pytest.fixture(scope="module")
def planted():
    return vr.datasets.synthetic(users=250, items=100, interactions=6000, seed=0, sequence=0.8).split_last(0.1)


@pytest.mark.parametrize("sampler", [vr.Uniform(), vr.VINS(), vr.SA(candidates=8)], ids=repr)
def test_it_learns_the_planted_order(planted, sampler):
    train, test = planted
    model = vr.SASRec(dim=16, length=20, dropout=0.1)
    model.fit(train, sampler, epochs=12, lr=0.01, batch=32, threads=1, progress=False)
    mf = vr.MF(dim=16).fit(train, sampler, epochs=20, lr=0.01, reg=1e-3, batch=512, threads=1, progress=False)
    assert vr.evaluate(model, test, at=5)["ndcg@5"] > 2 * vr.evaluate(mf, test, at=5)["ndcg@5"]


@pytest.mark.parametrize("loss", ["bpr", "hinge", "softmax"])
def test_any_loss(log, loss):
    model = vr.SASRec(dim=8, length=5).fit(log, vr.DNS(), epochs=15, lr=0.01, batch=4, loss=loss, negatives=2)
    assert model.history[-1]["loss"] < model.history[0]["loss"]


def test_someone_new_with_the_history_of_a_user_gets_their_query(planted):
    train, _ = planted
    model = vr.SASRec(dim=16, length=20).fit(train, vr.Uniform(), epochs=1, batch=32)
    items = train.items[train.indptr[3] : train.indptr[4]]
    np.testing.assert_allclose(model.query_of(items), model.queries(np.array([3]))[0], rtol=1e-4, atol=1e-5)
    assert not np.allclose(model.query_of(items[::-1]), model.query_of(items), rtol=1e-2)


def test_it_is_exported(log, tmp_path):
    model = vr.SASRec(dim=8, length=5).fit(log, vr.Uniform(), epochs=1)
    model.export(tmp_path / "vectors")
    assert any((tmp_path / "vectors").iterdir())


def test_heads_divide_the_dimensions():
    with pytest.raises(SettingError, match="heads is 3, which does not divide dim=16"):
        vr.SASRec(dim=16, heads=3)


def test_it_is_trained_on_the_command_line(tmp_path, capsys):
    log = write_log(tmp_path / "log.tsv")
    words = ("--model", "sasrec", "--set", "dim=8", "--set", "length=5", "--out", tmp_path / "run", *QUICK)
    told(capsys, "fit", log, *words)
    assert vr.load(tmp_path / "run").settings()["length"] == 5


# ---------------------------------------------------------------------------------------------- a module of yours


class Recurrent(nn.Module):
    """A query after each item."""

    def __init__(self, n_items, dim=8, bidirectional=False):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim)
        self.layer = nn.GRU(dim, dim // (1 + bidirectional), batch_first=True, bidirectional=bidirectional)

    def forward(self, users, context):
        return self.layer(self.items(context + 1))[0]


def recurrent(log, **options):
    torch.manual_seed(0)
    encoder = Recurrent(log.n_items, **options)
    return vr.TorchRecommender(encoder, nn.Embedding(log.n_items, 8), length=20, all_positions=True)


def test_a_module_trains_all_positions_at_once(planted, tmp_path):
    train, test = planted
    options = {"epochs": 12, "lr": 0.01, "batch": 32, "reg": 0.0, "loss": "cross_entropy"}
    model = recurrent(train).fit(train, vr.VINS(), **options)
    first = vr.TorchRecommender(Recurrent(train.n_items), nn.Embedding(train.n_items, 8), length=20, all_positions=True)
    mf = vr.MF(dim=16).fit(train, vr.VINS(), epochs=20, lr=0.01, reg=1e-3, batch=512, threads=1)
    assert vr.evaluate(model, test, at=5)["ndcg@5"] > 1.3 * vr.evaluate(mf, test, at=5)["ndcg@5"]
    model.save(tmp_path / "model")
    loaded = vr.load(tmp_path / "model")
    assert loaded.all_positions
    np.testing.assert_array_equal(loaded.recommend(train.user_ids)[0], model.recommend(train.user_ids)[0])
    again = loaded.attach(first.network.encoder, first.network.items)
    np.testing.assert_array_equal(again.queries(np.arange(9)), model.queries(np.arange(9)))


class Constant(Recurrent):
    """One query for each context."""

    def forward(self, users, context):
        return super().forward(users, context)[:, -1]


def test_encoders_that_look_ahead_or_make_one_query_are_refused(log):
    with pytest.raises(SettingError, match="change with the items behind them"):
        recurrent(log, bidirectional=True).fit(log, vr.Uniform(), epochs=1)
    model = vr.TorchRecommender(Constant(log.n_items), nn.Embedding(log.n_items, 8), length=5, all_positions=True)
    with pytest.raises(SettingError, match="must make one query for each item"):
        model.fit(log, vr.Uniform(), epochs=1)
    with pytest.raises(SettingError, match="needs length="):
        vr.TorchRecommender(Recurrent(log.n_items), nn.Embedding(log.n_items, 8), all_positions=True)
