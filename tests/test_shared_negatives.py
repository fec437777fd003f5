"""The softmax over in-batch negatives by products of blocks, against the plain path, and for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import vitalrank as vr
from vitalrank._util.threads import limited
from vitalrank.config import TrainConfig
from vitalrank.engines.shared_negatives import SharedNegatives

LOG = vr.datasets.synthetic(users=90, items=40, interactions=1500, seed=0)  # accidental hits in every batch
WEIGHTED = vr.Interactions.from_arrays(
    LOG.users, LOG.items, weights=np.random.default_rng(1).integers(0, 4, len(LOG)).astype(float)
)
CASES = {
    "all others": (LOG, vr.InBatch(), {}),
    "corrected": (LOG, vr.InBatch(candidates=70), {"correct": "logq", "temperature": 0.5}),
    "few": (LOG, vr.InBatch(candidates=3), {"reg": 0.1}),
    "weights": (WEIGHTED, vr.InBatch(candidates=100), {}),
    "a batch of the whole log": (LOG, vr.InBatch(candidates=130), {"batch": 5000}),
    "small batches": (LOG, vr.InBatch(candidates=9), {"batch": 7}),
}


def trained(log, sampler, dim=5, epochs=2, normalize=False, bias=False, threads=2, allowed=None, **options):
    config = TrainConfig(**{"loss": "softmax", "optimizer": "sgd", "batch": 230, "lr": 0.05, "reg": 0.01, **options})
    bound = sampler.bind(log, seed=3, allowed=allowed)
    engine = vr.MF(dim=dim, normalize=normalize, bias=bias).build(log, bound, config)
    with limited(threads):
        totals = [engine.run_epoch(epoch, lambda share: config.lr, lambda totals: None) for epoch in range(epochs)]
    return engine.values(), totals


def both(monkeypatch, *given, **options):
    """By products of blocks, and by the plain path."""
    fast = trained(*given, **options)
    monkeypatch.setattr(SharedNegatives, "of", lambda *given: None)
    return fast, trained(*given, **options)


def assert_close(fast, plain):
    for name, values in fast[0].items():
        np.testing.assert_allclose(values, plain[0][name], rtol=2e-3, atol=2e-5)
    for one, other in zip(fast[1], plain[1], strict=True):
        assert (one.positives, one.skipped, one.tries) == (other.positives, other.skipped, other.tries)
        assert one.vanished == pytest.approx(other.vanished, abs=2)
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.start_loss == pytest.approx(other.start_loss, rel=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_products_of_blocks_train_as_the_plain_path_does(case, monkeypatch):
    log, sampler, options = CASES[case]
    assert_close(*both(monkeypatch, log, sampler, **options))


def test_cosines_biases_and_a_pool(monkeypatch):
    sampler, options = (
        vr.InBatch(candidates=90),
        {"correct": "logq", "allowed": np.arange(0, 40, 3)},
    )
    assert_close(*both(monkeypatch, LOG, sampler, dim=18, normalize=True, reg=0.0, temperature=0.2, **options))
    monkeypatch.undo()
    assert_close(*both(monkeypatch, LOG, sampler, dim=18, bias=True, **options))


def test_rows_without_negatives_are_skipped(monkeypatch):
    alike = vr.Interactions.from_arrays([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])  # everybody has seen everything
    fast, plain = both(monkeypatch, alike, vr.InBatch(), batch=6)
    assert_close(fast, plain)
    assert fast[1][0].skipped == 6


def test_the_bits_are_those_of_one_thread():
    log = vr.datasets.synthetic(users=700, items=300, interactions=9000, seed=1)
    one, three = (
        trained(log, vr.InBatch(candidates=200), dim=16, batch=1500, threads=threads, epochs=1) for threads in (1, 3)
    )
    for name in one[0]:
        np.testing.assert_array_equal(one[0][name], three[0][name])
    assert one[1] == three[1]


def test_a_resumed_run_has_the_bits_of_one_that_was_not(tmp_path):
    options = {"loss": "softmax", "batch": 256, "seed": 0, "progress": False}
    whole = vr.MF(dim=8).fit(LOG, vr.InBatch(), epochs=3, **options)
    vr.MF(dim=8).fit(LOG, vr.InBatch(), epochs=1, checkpoint=tmp_path / "run", **options)
    resumed = vr.MF(dim=8).fit(LOG, vr.InBatch(), epochs=3, checkpoint=tmp_path / "run", resume=True, **options)
    np.testing.assert_array_equal(whole.item_table, resumed.item_table)
