"""The GPU's engine and ranking against the CPU's: interpreted on a toy log, or on a real GPU if VITALRANK_TEST_GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vitalrank as vr
from sampler_calls import GPU
from vitalrank.config import TrainConfig
from vitalrank.engines.base import VectorShape
from vitalrank.engines.mf_cpu import CpuEngine
from vitalrank.ranking.top_n import top_items
from vitalrank.samplers.base import BoundSampler

torch = pytest.importorskip("torch")
pytest.importorskip("triton", minversion="3.6")  # older ones interpret less

from vitalrank.engines.mf_gpu import GpuEngine  # noqa: E402
from vitalrank.kernels.cpu.training.permutation import epoch_permutation, row_at  # noqa: E402
from vitalrank.ranking.device_top_n import DeviceRanker  # noqa: E402

REAL = GPU != "cpu"
SAMPLERS = {
    "uni": vr.Uniform(),
    "vins": vr.VINS(kappa=8),
    "dns": vr.DNS(4),
    "sa": vr.SA(candidates=5),
    "pris": vr.PRIS(candidates=3, clusters=2),
}
RULES = {
    "adam": {},
    "hinge-adagrad": {"loss": "hinge", "optimizer": "adagrad"},
    "points-sgd": {"loss": "cross_entropy", "optimizer": "sgd"},
    "softmax": {"loss": "softmax", "negatives": 3},
}


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=12, items=15, interactions=26, seed=0)


def bound_to(log, name) -> BoundSampler:
    return SAMPLERS[name].bind(log, seed=3, count=True)


def run(engine, epochs=2):
    for epoch in range(1, epochs + 1):
        totals = engine.run_epoch(epoch, lambda share: 0.01, lambda totals: None)
    return totals


def pairs():
    wide = {"sa", "pris"}  # they choose the number of negatives themselves
    return [(name, rule) for name in SAMPLERS for rule in RULES if not (name in wide and "negatives" in RULES[rule])]


@pytest.mark.parametrize(
    ("name", "rule"), pairs() if REAL else [*pairs()[:5], *pairs()[8:9], *pairs()[12:13], pairs()[-3]]
)
@pytest.mark.parametrize("batch", [5, 16])  # fewer places than rows, and more
def test_an_epoch_moves_the_tables_as_on_the_cpu(log, name, rule, batch):
    config = TrainConfig(batch=batch, seed=3, **RULES[rule])
    samplers = bound_to(log, name), bound_to(log, name)
    plain = CpuEngine(log, samplers[0], config, VectorShape(5, True))
    ours = GpuEngine(log, samplers[1], config, VectorShape(5, True), GPU)
    totals, found = run(plain), run(ours)
    for part in ("values", "state"):
        for table, array in getattr(plain, part)().items():
            np.testing.assert_allclose(getattr(ours, part)()[table], array, rtol=1e-4, atol=1e-5, err_msg=table)
    assert found.loss == pytest.approx(totals.loss, rel=1e-5)
    assert found.start_loss == pytest.approx(totals.start_loss, rel=1e-5)
    for count in ("positives", "skipped", "tries", "vanished", "violated"):
        assert getattr(found, count) == getattr(totals, count)
    for side in ("positive", "negative"):
        np.testing.assert_array_equal(getattr(samplers[1].counts, side), getattr(samplers[0].counts, side))
    assert samplers[1].counts.tries == samplers[0].counts.tries


@pytest.mark.parametrize("violated", [None, True])
def test_a_sampler_of_the_callers_own_is_called_as_on_the_cpu(log, violated):
    def step_aside(queries, table, users, positives, step, k):
        here = np.asarray(torch.as_tensor(positives).cpu())
        near = (here[:, None] + 1 + step % 7 + np.arange(k)) % len(table)
        assert queries.shape == (len(users), table.shape[1])
        rows = np.ones(len(users), np.int64)
        return vr.Draw(near, np.full((len(users), k), 0.5), rows, violated=None if violated is None else rows > 0)

    config = TrainConfig(batch=16, seed=3, negatives=2)
    plain = CpuEngine(log, step_aside, config, VectorShape(4, True))
    ours = GpuEngine(log, step_aside, config, VectorShape(4, True), GPU)
    totals, found = run(plain), run(ours)
    for table, array in plain.values().items():
        np.testing.assert_allclose(ours.values()[table], array, rtol=1e-4, atol=1e-5, err_msg=table)
    assert (found.tries, found.violated) == (totals.tries, totals.violated)


def test_who_has_seen_everything_moves_nothing():
    full = vr.Interactions.from_arrays([0, 0, 1, 1], [0, 1, 0, 1])
    engine = GpuEngine(full, vr.Uniform().bind(full), TrainConfig(batch=4), VectorShape(4), GPU)
    before = engine.values()
    before = {name: table.copy() for name, table in before.items()}
    assert run(engine, 1).skipped == 4
    for name, table in engine.values().items():
        np.testing.assert_array_equal(table, before[name])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_none_is_noticed(log, value):
    engine = GpuEngine(log, bound_to(log, "uni"), TrainConfig(), VectorShape(4), GPU)
    assert engine.is_finite()
    engine.items[3, 1] = value
    assert not engine.is_finite()


def test_state_goes_out_and_comes_back(log):
    config = TrainConfig(batch=16, seed=3)
    whole = GpuEngine(log, bound_to(log, "uni"), config, VectorShape(4), GPU)
    first = GpuEngine(log, bound_to(log, "uni"), config, VectorShape(4), GPU)
    second = GpuEngine(log, bound_to(log, "uni"), config, VectorShape(4), GPU)
    run(whole, 2)
    run(first, 1)
    second.load({k: v.copy() for k, v in first.values().items()}, {k: v.copy() for k, v in first.state().items()})
    second.step = first.step
    second.run_epoch(2, lambda share: 0.01, lambda totals: None)
    for name, table in whole.values().items():
        np.testing.assert_array_equal(second.values()[name], table)


@pytest.mark.parametrize("n", [1, 4, 15, 100])
def test_the_best_items_are_those_of_the_cpu(log, n, monkeypatch):
    if n == 15:  # the way of long lists
        monkeypatch.setattr("vitalrank.kernels.gpu.ranking.top_n.MOST", 2)
    rng = np.random.default_rng(0)
    model = vr.MF(dim=3).fit(log, vr.Uniform(), epochs=1)
    model._users = (rng.integers(-2, 3, (log.n_users, 3)) / 2).astype(np.float32)  # scores that tie
    model._items = (rng.integers(-2, 3, (log.n_items, 3)) / 2).astype(np.float32)
    csr = log.csr
    ranker = DeviceRanker(model, csr.indptr.astype(np.int64), csr.indices, GPU)
    n = min(n, log.n_items)
    items, scores = top_items(model, np.arange(log.n_users), n)
    found, values = ranker.best(np.arange(log.n_users), n)
    np.testing.assert_array_equal(found, items)
    np.testing.assert_array_equal(values, scores)


@pytest.mark.parametrize("width", [0, 2])
def test_the_order_is_that_of_the_cpu(width):
    from vitalrank.kernels.gpu.training.batches import Positives, StepState, load_batch, new_batch
    from vitalrank.kernels.gpu.training.permutation import new_permutation, write_permutation

    size, stride = 37, 20
    order = new_permutation(torch.device(GPU))
    write_permutation(order, size, seed=5, epoch=2)
    numbers = torch.arange(size, dtype=torch.int32, device=GPU)
    step_state = StepState(
        *(torch.zeros(2, dtype=kind, device=GPU) for kind in (torch.int64, torch.float32, torch.int64))
    )
    table = torch.arange(2.0 * size, device=GPU).view(size, 2)
    visited = []
    for batch_number, count in ((0, 20), (1, 17)):
        batch = new_batch(count, width, GPU)
        load_batch(order, batch_number, step_state, Positives(numbers, numbers, None, stride), table, batch)
        visited += batch.users.tolist()
        assert torch.equal(batch.queries, table[batch.users.long(), :width])
    assert step_state.steps.tolist() == [0, 1]
    plain = epoch_permutation(size, 5, 2)
    assert visited == [int(row_at(plain, position)) for position in range(size)]


def test_dropout_follows_its_counter():
    from vitalrank.kernels.gpu import new_counter
    from vitalrank.kernels.gpu.training.dropout import drop

    rows = torch.zeros(1, dtype=torch.int32, device=GPU)
    x = torch.ones((41, 51), device=GPU, requires_grad=True)

    def dropped(seed, step, layer):
        return drop(x, 0.25, new_counter(seed, step, rows), layer)

    first = dropped(0, 0, 0)
    assert first.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert (first == 0).float().mean().item() == pytest.approx(0.25, abs=0.04)
    assert torch.equal(first, dropped(0, 0, 0))
    for other in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        both = ((first == 0) & (dropped(*other) == 0)).float().mean().item()
        assert both == pytest.approx(0.25**2, abs=0.03)  # apart from each other
    (first * 2.0).sum().backward()
    assert torch.equal(x.grad, 2.0 * first.detach())


def test_every_kernel_compiles_for_a_card_that_is_not_here():
    """The interpreter forgives what the compiler does not."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).with_name("compile_gpu.py")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    files = (Path(vr.__file__).parent / "kernels" / "gpu").rglob("*.py")
    launched = {name for file in files for name in re.findall(r"^ +(_\w+)\[", file.read_text(), re.MULTILINE)}
    assert set(done.stdout.split()) == launched


@pytest.fixture(scope="module")
def parts():
    return vr.datasets.synthetic(users=900, items=700, interactions=40_000, seed=0).split_last(0.2, valid=0.1)


@pytest.mark.gpu
@pytest.mark.skipif(not REAL, reason="needs a GPU")
class TestOnTheCard:
    """Whole runs, which take a graph."""

    @pytest.mark.parametrize(
        "sampler", [vr.Uniform(), vr.VINS(), vr.DNS(8), vr.SA(candidates=16), vr.PRIS(), vr.AOBPR()]
    )
    def test_same_seed_same_bits_and_the_quality_of_the_cpu(self, parts, sampler):
        train, valid, test = parts
        runs = [
            vr.MF(dim=16).fit(train, sampler, epochs=8, valid=valid, device=device, seed=1, progress=False)
            for device in ("cuda", "cuda", "cpu")
        ]
        for name, table in runs[0].tensors().items():
            np.testing.assert_array_equal(table, runs[1].tensors()[name])
        found = [vr.evaluate(model, test, exclude=valid)["ndcg@10"] for model in runs]
        assert found[0] == pytest.approx(found[2], rel=0.05)
        assert vr.evaluate(runs[0], test, exclude=valid, device="cuda")["ndcg@10"] == pytest.approx(found[0], rel=1e-3)
        ids, _ = runs[0].recommend(train.user_ids[:5], n=3, device="cuda")
        np.testing.assert_array_equal(ids, runs[0].recommend(train.user_ids[:5], n=3)[0])

    @pytest.mark.parametrize("sampler", [vr.VINS(), vr.AOBPR(refresh=3), vr.PRIS(refresh=5)])
    def test_a_replay_has_the_bits_of_step_by_step(self, parts, sampler, monkeypatch):
        def fit():
            return vr.MF(dim=8).fit(parts[0], sampler, epochs=3, device="cuda", seed=3, progress=False)

        replayed = fit().tensors()
        monkeypatch.setattr("vitalrank.engines.mf_gpu.GpuEngine._can_capture", lambda engine: False)
        for name, table in fit().tensors().items():
            np.testing.assert_array_equal(table, replayed[name])

    def test_a_run_stopped_and_resumed_has_the_same_bits(self, parts, tmp_path):
        train = parts[0]
        options = {"device": "cuda", "seed": 2, "progress": False}
        whole = vr.MF(dim=8).fit(train, vr.VINS(), epochs=6, **options)
        vr.MF(dim=8).fit(train, vr.VINS(), epochs=3, checkpoint=tmp_path / "run", **options)
        again = vr.MF(dim=8).fit(train, vr.VINS(), epochs=6, checkpoint=tmp_path / "run", resume=True, **options)
        for name, table in whole.tensors().items():
            np.testing.assert_array_equal(table, again.tensors()[name])

    def test_threads_share_the_card(self, parts):
        from concurrent.futures import ThreadPoolExecutor

        def fit(seed):
            options = {"valid": parts[1], "device": "cuda", "seed": seed, "progress": False}
            return vr.MF(dim=8).fit(parts[0], vr.VINS(), epochs=4, **options).tensors()

        alone = [fit(seed) for seed in range(4)]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(fit, range(4)))
        for one, other in zip(alone, together, strict=True):
            for name, table in one.items():
                np.testing.assert_array_equal(table, other[name])

    def test_a_sampler_in_ones_own_loop(self, parts):
        train = parts[0]
        rng = np.random.default_rng(0)
        queries, table = rng.normal(size=(64, 8)).astype(np.float32), rng.normal(size=(700, 8)).astype(np.float32)
        users, positives = train.users[:64].astype(np.int64), train.items[:64].astype(np.int64)
        bound = vr.VINS().bind(train, seed=1)
        here = bound(queries, table, users, positives, step=3)
        there = bound(*(torch.from_numpy(a).cuda() for a in (queries, table, users, positives)), step=3)
        assert there.ids.is_cuda
        np.testing.assert_array_equal(there.ids.cpu(), here.ids)
        np.testing.assert_array_equal(there.tries.cpu(), here.tries)
