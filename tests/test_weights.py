"""Weights of rows: read, merged, decayed, kept; and training with them beside an independent computation."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import vitalrank as vr
from sampler_calls import GPU
from vitalrank.registry import GIVEN_SAMPLERS, SAMPLERS

Row = tuple[int, int, int, int]
rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=40
)


@settings(deadline=None)
@given(rows, st.sampled_from(["first", "last", "sum", "count"]), st.booleans())
def test_repeats_are_the_plain_definition(rows: list[Row], repeats: str, weighted: bool) -> None:
    users, items, times, weights = map(list, zip(*rows, strict=True))
    log = vr.Interactions.from_arrays(users, items, times, weights if weighted else None, repeats=repeats)
    groups: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[2]):
        groups[row[:2]].append(row)
    place = 0 if repeats == "first" else -1
    wanted = {}
    for pair, group in groups.items():
        each = [row[3] if weighted else 1 for row in group]
        weight = {"sum": sum(each), "count": len(group)}.get(repeats, each[place])
        wanted[pair] = group[place][2], weight
    has_weights = weighted or repeats in ("sum", "count")
    assert (log.weights is not None) == has_weights
    given = log.weights if log.weights is not None else np.ones(len(log))
    found = zip(log.user_ids[log.users], log.item_ids[log.items], log.times, given, strict=True)
    assert {(u, i): (t, w) for u, i, t, w in found} == wanted
    assert log.repeats == len(rows) - len(groups)


FILES = {
    "a.csv": "user,item,time,stars\nann,7,20,4.5\nbob,7,5,0\nann,9,10,1\n",
    "a.tsv": "user\titem\tstars\ttime\nann\t7\t4.5\t20\nbob\t7\t0\t5\nann\t9\t1\t10\n",
    "a.jsonl": '{"user": "ann", "item": 7, "stars": 4.5, "time": 20}\n'
    '{"user": "bob", "item": 7, "stars": 0, "time": 5}\n'
    '{"user": "ann", "item": 9, "stars": 1, "time": 10}\n',
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("timed", [True, False])
def test_files_have_a_weight_column(tmp_path: Path, name: str, timed: bool) -> None:
    (tmp_path / name).write_text(FILES[name])
    log = vr.read(tmp_path / name, weight="stars", time=None if timed else False)
    assert (log.times is not None) == timed
    assert log.weights.tolist() == ([1, 4.5, 0] if timed else [4.5, 1, 0])
    assert vr.read(tmp_path / name).weights is None
    vr.datasets.write_log(log, tmp_path / "log.parquet")
    again = vr.read(tmp_path / "log.parquet", weight="weight")
    assert again.weights.tolist() == log.weights.tolist()
    assert again.fingerprint == log.fingerprint


def test_columns_may_be_positions(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text("1 5 3 881250949\n1 6 4 881250950\n")
    log = vr.read(path, weight=2)
    assert log.weights.tolist() == [3, 4]
    assert log.times is not None
    path.write_text("1 5 3\n1 6 4\n")
    assert vr.read(path, weight=2).weights.tolist() == [3, 4]


@pytest.mark.parametrize("bad", ["-1", "nan", "inf", "many", "", "1e40"])
def test_a_bad_weight_is_named_by_its_line_or_skipped(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"user,item,w\n1,5,2\n2,6,{bad}\n3,7,1\n")
    with pytest.raises(vr.DataError, match=r"log.csv, line 3: weight .*"):
        vr.read(path, weight="w")
    log = vr.read(path, weight="w", on_bad="skip")
    assert (log.weights.tolist(), log.skipped) == ([2, 1], 1)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1], "row 1 is -1.0"),
        ([np.nan, 1], "row 0 is nan"),
        ([0, 0], "All weights are 0"),
        ([1], "2 items, 1 weights"),
        ([1, None], "weights: row 1 is missing"),
        (["a", "b"], "weights: a value is no number"),
    ],
)
def test_weights_that_are_none_are_refused(weights: list[Any], message: str) -> None:
    with pytest.raises(vr.DataError, match=message):
        vr.Interactions.from_arrays([1, 2], [5, 6], weights=weights)


@pytest.mark.parametrize("repeats", ["first", "last", "sum", "count"])
def test_weights_of_the_kept_rows_are_refused_if_all_zero(repeats: str) -> None:
    zero_is_kept = {"first": [0, 1], "last": [1, 0], "sum": [0, 0]}.get(repeats)
    if zero_is_kept is not None:
        with pytest.raises(vr.DataError, match="All weights are 0"):
            vr.Interactions.from_arrays([1, 1], [5, 5], weights=zero_is_kept, repeats=repeats)
    log = vr.Interactions.from_arrays([1, 1], [5, 5], weights=[0, 0] if repeats == "count" else [2, 2], repeats=repeats)
    assert log.weights.tolist() == [4 if repeats == "sum" else 2]


def test_sums_that_no_weight_holds_are_refused() -> None:
    log = vr.Interactions.from_arrays([1], [5], weights=[3e38])
    with pytest.raises(vr.DataError, match=r"add up to more than 3\.4e38"):
        log.extend(log, repeats="sum")


def test_frames_matrices_and_cursors_have_weights() -> None:
    frame = {"user_id": [1, 1], "item_id": [5, 6], "rating": [4, 2]}
    assert vr.read(frame, weight="rating").weights.tolist() == [4, 2]
    assert vr.read(frame).weights is None
    matrix = csr_matrix([[0, 2.5], [3, 0]])
    assert vr.read(matrix).weights is None
    assert vr.read(matrix, weight=True).weights.tolist() == [2.5, 3]
    rows = [(1, 5, 4.0), (1, 6, 2.0)]
    log = vr.Interactions.from_rows(iter(rows), ("user", "item", "stars"), weight="stars")
    assert log.weights.tolist() == [4, 2]
    with pytest.raises(vr.DataError, match="one column has two roles"):
        vr.read({"user": [1], "item": [2]}, weight="item")
    with pytest.raises(vr.DataError, match="no column 'stars'"):
        vr.read(frame, weight="stars")
    with pytest.raises(vr.DataError, match="Row 1 has 2 values"):
        vr.Interactions.from_rows([(1, 5, 4), (1, 6)])
    with pytest.raises(vr.DataError, match="no rows"):
        vr.Interactions.from_rows([])


def test_weights_fall_with_age() -> None:
    day = 86_400_000
    log = vr.Interactions.from_arrays([1, 1, 2], [5, 6, 5], np.array([0, 30, 60]) * day + 1_600_000_000_000, [1, 2, 4])
    assert log.decayed("30d").weights.tolist() == [0.25, 1, 4]
    assert log.decayed("30d", now="2020-11-13").weights[0] < 0.25
    assert log.decayed(30 * day).weights.tolist() == [0.25, 1, 4]
    with pytest.raises(vr.DataError, match="All weights are 0"):
        log.decayed("1h", now="2030-01-01")


def test_the_fingerprint_knows_weights_and_known_negatives() -> None:
    plain = vr.Interactions.from_arrays([1, 2], [5, 6])
    other = vr.Interactions.from_arrays([1, 2], [6, 5])
    logs = [
        plain,
        vr.Interactions.from_arrays([1, 2], [5, 6], weights=[1, 1]),
        vr.Interactions.from_arrays([1, 2], [5, 6], weights=[1, 2]),
        plain.with_negatives(other),
    ]
    assert len({log.fingerprint for log in logs}) == 4


def test_weights_and_known_negatives_survive_filters_and_files(tmp_path: Path) -> None:
    log = vr.datasets.synthetic(users=30, items=20, interactions=300, seed=0)
    users, items = log.user_ids[log.users], log.item_ids[log.items]
    log = vr.Interactions.from_arrays(users, items, log.times, np.arange(len(log)) + 1)
    log = log.with_negatives(vr.Interactions.from_arrays(log.user_ids, np.resize(log.item_ids, log.n_users)))
    core = log.k_core(user=4, item=4)
    known = dict(zip(zip(users.tolist(), items.tolist(), strict=True), log.weights.tolist(), strict=True))
    pairs = zip(core.user_ids[core.users].tolist(), core.item_ids[core.items].tolist(), strict=True)
    assert [known[pair] for pair in pairs] == core.weights.tolist()
    train, test = core.split_last(0.2)
    assert len(train.weights) == len(train)
    model = vr.MostPopular().fit(train)
    model.held_out = {"test": test}
    model.save(tmp_path / "a")
    again = vr.load(tmp_path / "a")
    assert again.train.fingerprint == train.fingerprint
    assert again.held_out["test"].weights.tolist() == test.weights.tolist()
    assert (again.train.negatives != train.negatives).nnz == 0
    assert train.negatives.nnz > 0
    assert train.negatives.multiply(train.csr).nnz == 0


# ---------------------------------------------------------------------------------------- training

SEED, RATE, REG, EPOCHS = 3, 0.1, 0.05, 2
EPS = {"adam": 1e-8, "adagrad": 1e-10}


def small_log(weighted: bool = True) -> vr.Interactions:
    rng = np.random.default_rng(0)
    users, items = np.repeat(np.arange(6), 3), np.concatenate([rng.permutation(8)[:3] for _ in range(6)])
    return vr.Interactions.from_arrays(users, items, weights=rng.random(18) * 3 if weighted else None)


class Fixed:
    """Two unseen items for each positive, weighted, whatever the scores; none for the last user."""

    needs_scores = True
    seed = SEED

    def __call__(self, queries=None, item_table=None, users=None, positives=None, step=0, k=1, **_: Any) -> Any:
        import torch

        is_torch = isinstance(users, torch.Tensor)
        users, positives = (np.asarray(ids.cpu() if is_torch else ids) for ids in (users, positives))
        seen = small_log().csr.toarray() > 0
        ids = np.array([np.flatnonzero(~seen[u])[[int(i) % 2, 3]] for u, i in zip(users, positives, strict=True)])
        ids[users == 5] = -1
        weights = np.where(ids < 0, 0.0, np.array([0.5, 1.5])).astype(np.float32)
        tries = np.ones(len(ids), np.int64)
        if is_torch:
            return vr.Draw(torch.tensor(ids), torch.tensor(weights), torch.tensor(tries))
        return vr.Draw(ids, weights, tries)


def reference_loss(name: str, pos: Any, neg: Any, weights: Any) -> Any:
    """The loss of each positive, from its formula alone."""  # (B,)
    import torch
    from torch.nn.functional import softplus

    if name == "bpr":
        return (weights * softplus(neg - pos[:, None])).sum(1)
    if name == "hinge":
        return (weights * torch.relu(1.5 - pos[:, None] + neg)).sum(1)
    if name == "cross_entropy":
        return softplus(-pos) + (weights * softplus(neg)).sum(1)
    return torch.log(pos.exp() + (weights * neg.exp()).sum(1)) - pos


def reference(users: Any, items: Any, loss: str, optimizer: str) -> tuple[Any, Any, float]:
    """Two steps over the whole log by autograd and the optimizers' formulas; the tables, and the first mean loss."""
    import torch

    log = small_log()
    tables = [torch.tensor(table, dtype=torch.float64, requires_grad=True) for table in (users, items)]
    moments = [[torch.zeros_like(table) for table in tables] for _ in range(2)]
    draw = Fixed()(users=log.users, positives=log.items)
    drawn = torch.tensor(draw.ids >= 0)
    here = drawn.any(1)
    u, i, j = (torch.tensor(array, dtype=torch.int64)[here] for array in (log.users, log.items, draw.ids))
    w, of_positives = torch.tensor(draw.weights)[here].double(), torch.tensor(log.weights)[here].double()
    losses = []
    for step in range(1, EPOCHS + 1):
        p, q, n = tables[0][u], tables[1][i], tables[1][j]
        each = of_positives * reference_loss(loss, (p * q).sum(1), (p[:, None] * n).sum(2), w)
        losses.append(each.mean().item())
        l2 = REG / 2 * (p.square().sum() + q.square().sum() + n.square().sum())
        gradients = torch.autograd.grad(each.sum() + l2, tables)
        with torch.no_grad():
            for side, (table, gradient) in enumerate(zip(tables, gradients, strict=True)):
                hit = torch.zeros(len(table), dtype=torch.bool)
                hit[u if side == 0 else torch.cat([i, j.flatten()])] = True
                first, second = moments[0][side], moments[1][side]
                if optimizer == "adam":
                    first[hit] = 0.9 * first[hit] + 0.1 * gradient[hit]
                    second[hit] = 0.999 * second[hit] + 0.001 * gradient[hit] ** 2
                    size = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                    table[hit] -= size * first[hit] / (second[hit].sqrt() + EPS["adam"])
                elif optimizer == "adagrad":
                    second[hit] += gradient[hit] ** 2
                    table[hit] -= RATE * gradient[hit] / (second[hit].sqrt() + EPS["adagrad"])
                else:
                    table[hit] -= RATE * gradient[hit]
    return tables[0].detach().numpy(), tables[1].detach().numpy(), losses[-1]


def mf_engine(kind: str, config: vr.TrainConfig) -> Any:
    from vitalrank.engines.base import VectorShape
    from vitalrank.engines.mf_cpu import CpuEngine

    if kind == "cpu":
        return CpuEngine(small_log(), Fixed(), config, VectorShape(3))
    pytest.importorskip("triton", minversion="3.6")
    from vitalrank.engines.mf_gpu import GpuEngine

    return GpuEngine(small_log(), Fixed(), config, VectorShape(3), GPU)


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "sgd"])
@pytest.mark.parametrize("loss", ["bpr", "hinge", "cross_entropy", "softmax"])
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_matrix_factorization_scales_each_positives_loss(kind: str, loss: str, optimizer: str) -> None:
    pytest.importorskip("torch")
    if kind == "gpu" and (loss, optimizer) not in {("bpr", "adam"), ("cross_entropy", "adagrad"), ("softmax", "sgd")}:
        pytest.skip("interpreted kernels are slow: each loss and optimizer is tried once")
    margin = 1.5 if loss == "hinge" else 1.0
    config = vr.TrainConfig(
        batch=18, lr=RATE, reg=REG, loss=loss, margin=margin, optimizer=optimizer, negatives=2, seed=SEED
    )
    engine = mf_engine(kind, config)
    start = {"users": np.linspace(-1, 1, 18).reshape(6, 3), "items": np.linspace(1, -0.5, 21).reshape(7, 3) ** 2}
    engine.load({name: table.astype(np.float32) for name, table in start.items()})
    for epoch in range(1, EPOCHS + 1):
        totals = engine.run_epoch(epoch, lambda share: RATE, lambda totals: None)
    users, items, mean = reference(start["users"], start["items"], loss, optimizer)
    np.testing.assert_allclose(engine.values()["users"], users, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(engine.values()["items"], items, rtol=2e-4, atol=2e-5)
    record = totals.means()
    assert record["loss"] == pytest.approx(mean, rel=1e-5)
    assert record["skipped"] == 3
    log, draw = small_log(), Fixed()(users=small_log().users, positives=small_log().items)
    one = {"hinge": 1.5}.get(loss, np.log(2))
    of_rows = draw.weights.sum(1) + (draw.ids >= 0).any(1) * (loss == "cross_entropy")
    assert totals.start_loss == pytest.approx(one * float(log.weights @ of_rows), rel=1e-5)


@pytest.mark.parametrize("loss", ["bpr", "hinge", "cross_entropy", "softmax"])
def test_losses_are_means_of_weighted_rows(loss: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    pos, neg, weights, of_positives = rng.normal(size=5), rng.normal(size=(5, 2)), rng.random((5, 2)), rng.random(5)
    options = {"margin": 1.5} if loss == "hinge" else {}
    wanted = reference_loss(loss, *map(torch.tensor, (pos, neg, weights))).numpy() @ of_positives / 5
    function = getattr(vr.losses, loss)
    assert float(function(pos, neg, weights, sample_weight=of_positives, **options)) == pytest.approx(wanted)
    with pytest.raises(vr.SettingError, match="sample_weight is of shape"):
        function(pos, neg, weights, sample_weight=of_positives[:2])


@pytest.mark.parametrize("name", [*SAMPLERS, *GIVEN_SAMPLERS])
@pytest.mark.parametrize("kind", ["MF", "FPMC"])
def test_a_step_is_linear_in_the_weights_with_every_sampler(kind: str, name: str) -> None:
    """Under plain SGD without L2, the step by ``v + w`` is the sum of the steps by ``v`` and by ``w``."""
    if kind != "MF":
        pytest.importorskip("torch")
    plain = vr.datasets.synthetic(users=20, items=15, interactions=150, seed=0)
    users, items, rng = plain.user_ids[plain.users], plain.item_ids[plain.items], np.random.default_rng(0)
    shown = vr.Interactions.from_arrays(np.repeat(plain.user_ids, 3), rng.choice(plain.item_ids, 3 * plain.n_users))
    v, w = rng.random((2, len(plain)))
    options = {"optimizer": "sgd", "reg": 0.0, "batch": 1000, "patience": None, "progress": False, "threads": 1}

    def tables(weights: Any, lr: float = 0.5) -> list[Any]:
        log = vr.Interactions.from_arrays(users, items, plain.times, weights).with_negatives(shown)
        sampler = (SAMPLERS if name in SAMPLERS else GIVEN_SAMPLERS)[name].load()()
        return [*new_model(kind).fit(log, sampler, epochs=1, seed=1, lr=lr, **options).tensors().values()]

    for start, first, second, both in zip(tables(v, 1e-30), tables(v), tables(w), tables(v + w), strict=True):
        np.testing.assert_allclose((first - start) + (second - start), both - start, rtol=1e-4, atol=1e-5)
        assert np.abs(both - start).max() > 0.01


def new_model(name: str) -> vr.models.Recommender:
    settings = {"IRGAN": {"warm": 1}, "MARank": {"length": 3}}.get(name, {})
    return getattr(vr, name)(dim=4, **settings)


@pytest.mark.parametrize("name", ["MF", "FPMC", "MARank", "CML", "IRGAN"])
def test_ones_change_no_bit_and_doubled_weights_double_the_loss(name: str) -> None:
    pytest.importorskip("torch")
    plain = vr.datasets.synthetic(users=20, items=15, interactions=150, seed=0)
    users, items = plain.user_ids[plain.users], plain.item_ids[plain.items]
    fitted = []
    for weights in (None, np.ones(len(plain)), np.full(len(plain), 2.0)):
        log = vr.Interactions.from_arrays(users, items, plain.times, weights)
        options = {"optimizer": "sgd", "reg": 0.0, "lr": 0.001, "batch": 32, "patience": None}
        fitted.append(new_model(name).fit(log, epochs=2, seed=1, progress=False, threads=1, **options))
    one, ones, twos = fitted
    assert np.array_equal(one.item_table, ones.item_table)
    assert np.array_equal(one.queries(np.arange(20)), ones.queries(np.arange(20)))
    assert not np.array_equal(one.item_table, twos.item_table)
    records = [model.history.records[0] for model in fitted]
    assert records[0]["loss"] == pytest.approx(records[1]["loss"], rel=1e-6)
    assert records[2]["loss"] == pytest.approx(2 * records[0]["loss"], rel=0.1)


@pytest.mark.parametrize("name", ["FPMC", "MARank"])
def test_rows_of_weight_zero_are_as_if_no_gradient_came_from_them(name: str) -> None:
    """Under plain SGD without L2, only the users of the weighted rows and their items are updated."""
    pytest.importorskip("torch")
    log = small_log()
    weights = (log.users == 0).astype(np.float32)
    one = vr.Interactions.from_arrays(log.users, log.items, weights=weights)
    options = {"optimizer": "sgd", "reg": 0.0, "lr": 1.0, "batch": 18, "patience": None}
    before = new_model(name).fit(one, epochs=1, seed=1, progress=False, **{**options, "lr": 1e-12})
    after = new_model(name).fit(one, epochs=1, seed=1, progress=False, **options)
    key = next(key for key in before.tensors() if "user" in key)
    changed = np.abs(before.tensors()[key] - after.tensors()[key]).reshape(6, -1).max(1) > 1e-6
    assert changed.tolist() == [True] + [False] * 5
