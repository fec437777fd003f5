"""Temperature, corrected weights, calibration and mixed negatives: each engine steps as autograd says."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

import vitalrank as vr
from vitalrank import losses
from vitalrank.config import TrainConfig
from vitalrank.engines.base import VectorShape
from vitalrank.engines.mf_cpu import CpuEngine
from vitalrank.errors import SettingError

torch = pytest.importorskip("torch")

LOG = vr.datasets.synthetic(users=12, items=15, interactions=40, seed=0)
K, LR = 3, 0.05
CASES = {
    "bpr": {"temperature": 0.5},
    "hinge": {"loss": "hinge", "temperature": 2.0},
    "cross_entropy": {"loss": "cross_entropy"},
    "gbce": {"loss": "gbce", "calibration": 0.6},
    "gbce-sharp": {"loss": "gbce", "temperature": 0.25},
    "softmax": {"loss": "softmax", "temperature": 0.2},
    "bsl": {"loss": "bsl", "temperature": 0.5, "bilateral": 1.5},
    "bsl-logq": {"loss": "bsl", "correct": "logq"},
    "psl": {"loss": "psl", "temperature": 0.3},
    "psl-logq": {"loss": "psl", "correct": "logq", "temperature": 2.0},
    "softmax-logq": {"loss": "softmax", "correct": "logq", "temperature": 0.5},
}
DEVICE = "cuda" if "VITALRANK_TEST_GPU" in os.environ else "cpu"  # else interpreted
cases = pytest.mark.parametrize("case", CASES)
mixes = pytest.mark.parametrize("mixed", [False, True])


def sampler_of(mixed):
    """Negatives, weights, shares and densities that follow from the positive alone."""

    def step_aside(queries=None, item_table=None, users=None, positives=None, step=0, k=K):
        here = np.asarray(torch.as_tensor(positives).cpu())
        ids = (here[:, None] + 1 + np.arange(k)) % LOG.n_items
        weights = 0.25 + (ids % 4).astype(np.float32) / 4
        log_q = -np.log(2.0 + ids % 5).astype(np.float32)
        mix = (ids % 3).astype(np.float32) / 4 if mixed else None
        made = vr.Draw(ids, weights, np.full(len(here), k), log_q, mix=mix)
        if not isinstance(positives, torch.Tensor):
            return made
        parts = {n: torch.as_tensor(getattr(made, n)) for n in ("ids", "weights", "tries", "log_q")}
        parts |= {} if mix is None else {"mix": torch.as_tensor(mix)}
        return vr.Draw(**{name: part.to(positives.device) for name, part in parts.items()})

    return step_aside


def expected(tables, mixed, config):
    """The tables after one step of stochastic gradient descent, by autograd on mixed vectors."""
    users, items = (torch.tensor(tables[name], requires_grad=True) for name in ("users", "items"))
    who, what = (torch.as_tensor(np.asarray(x)).long() for x in (LOG.users, LOG.items))
    draw = sampler_of(mixed)(None, None, who, what, 0, K)
    own, others = items[what], items[draw.ids]  # (B, d), (B, k, d)
    if mixed:
        others = draw.mix[:, :, None] * own[:, None] + (1 - draw.mix[:, :, None]) * others
    scale = 1.0 if config.loss == "psl" else config.temperature
    pos = (users[who] * own).sum(1) / scale
    neg = (users[who][:, None] * others).sum(2) / scale
    weights = draw.weights / draw.log_q.exp() / K if config.correct == "logq" else draw.weights
    more = {"positive_weight": losses.gbce_weight(config.calibration, K, LOG.n_items)} if config.loss == "gbce" else {}
    more |= {"bilateral": config.bilateral} if config.loss == "bsl" else {}
    more |= {"temperature": config.temperature} if config.loss == "psl" else {}
    (losses.LOSSES[config.loss].function(pos, neg, weights, **more) * len(LOG)).backward()
    return {"users": (users - LR * users.grad).detach().numpy(), "items": (items - LR * items.grad).detach().numpy()}


def config_of(case):
    return TrainConfig(batch=len(LOG), negatives=K, optimizer="sgd", reg=0.0, lr=LR, epochs=1, **CASES[case])


def assert_one_step(engine, case, mixed):
    rng = np.random.default_rng(0)
    start = {name: rng.normal(size=table.shape).astype(np.float32) for name, table in engine.values().items()}
    engine.load(start)
    totals = engine.run_epoch(1, lambda share: LR, lambda totals: None)
    for name, table in expected(start, mixed, config_of(case)).items():
        np.testing.assert_allclose(engine.to_numpy(engine.copy())[name], table, rtol=2e-4, atol=2e-5, err_msg=name)
    assert math.isfinite(totals.loss)


@cases
@mixes
def test_the_cpu_steps_as_autograd(case, mixed):
    assert_one_step(CpuEngine(LOG, sampler_of(mixed), config_of(case), VectorShape(5)), case, mixed)


@cases
@mixes
def test_the_gpu_steps_as_autograd(case, mixed):
    pytest.importorskip("triton", minversion="3.6")
    from vitalrank.engines.mf_gpu import GpuEngine

    assert_one_step(GpuEngine(LOG, sampler_of(mixed), config_of(case), VectorShape(5), DEVICE), case, mixed)


@cases
@mixes
def test_torch_steps_as_autograd(case, mixed):
    encoder, table = torch.nn.Embedding(LOG.n_users, 5), torch.nn.Embedding(LOG.n_items, 5)
    model = vr.TorchRecommender(encoder, table)
    start = {"users": encoder.weight.detach().numpy().copy(), "items": table.weight.detach().numpy().copy()}
    engine = model.build(LOG, sampler_of(mixed), config_of(case))
    engine.run_epoch(1, lambda share: LR, lambda totals: None)
    wanted = expected(start, mixed, config_of(case))
    np.testing.assert_allclose(encoder.weight.detach().numpy(), wanted["users"], rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(table.weight.detach().numpy(), wanted["items"], rtol=2e-4, atol=2e-5)


def test_corrected_weights_estimate_the_sum_over_all_items():
    """The mean over many draws of ``sum_j w_j e^s_j`` is the sum over the unseen items: the full softmax's denominator,
    and its derivative, that of the full softmax's.
    """
    from vitalrank.engines.correcting import corrected

    rng = np.random.default_rng(1)
    scores = rng.normal(size=LOG.n_items)
    user, rows = 3, 40_000
    bound = vr.Popularity(1.0).bind(LOG, seed=0)
    draw = bound(users=np.full(rows, user), positives=np.full(rows, 0), step=0, k=4)
    weights = corrected(draw, TrainConfig(loss="softmax", correct="logq"), np).weights
    found = np.bincount(draw.ids.ravel(), (weights * np.exp(scores)[draw.ids]).ravel(), LOG.n_items) / rows  # (n,)
    unseen = ~np.isin(np.arange(LOG.n_items), LOG.items[LOG.users == user])
    np.testing.assert_allclose(found, np.where(unseen, np.exp(scores), 0.0), rtol=0.1)
    assert found.sum() == pytest.approx(np.exp(scores)[unseen].sum(), rel=0.02)


def test_mixgcf_trains_a_model():
    options = {"epochs": 4, "lr": 0.02, "seed": 0, "progress": False}
    history = vr.MF(dim=4).fit(LOG, vr.MixGCF(candidates=4), **options).history
    assert history.records[-1]["loss"] < history.records[0]["loss"]
    mixed = vr.MF(dim=4).fit(LOG, vr.Mixed("uni", vr.MixGCF(4)), **options).history
    assert math.isfinite(mixed.records[-1]["loss"])


@pytest.mark.parametrize(
    ("options", "sampler", "words"),
    [
        ({"temperature": 0.0}, vr.Uniform(), "temperature"),
        ({"correct": "logq"}, vr.Uniform(), "which is for the loss 'softmax'"),
        ({"correct": "often"}, vr.Uniform(), "correct"),
        ({"calibration": 1.5}, vr.Uniform(), "calibration"),
        ({"bilateral": 0.0, "loss": "bsl"}, vr.Uniform(), "bilateral"),
        ({"bilateral": 2.0}, vr.Uniform(), "which is for the loss 'bsl'"),
        ({"correct": "logq", "loss": "softmax"}, vr.DNS(), "have no log_q"),
        ({"correct": "logq", "loss": "softmax"}, vr.SA(candidates=4), "weighs its candidates itself"),
        ({"temperature": 0.5}, vr.PRIS(candidates=3, clusters=2), "gradient flows"),
    ],
    ids=str,
)
def test_settings_that_exclude_each_other(options, sampler, words):
    with pytest.raises(SettingError, match=words):
        vr.MF(dim=4).fit(LOG, sampler, epochs=1, progress=False, **options)


def draws_of(sampler, user, positive, rows, k):
    """Draws of k negatives for one pair, (rows, k); in-batch ones each beside k random rows of the log."""
    bound, rng = sampler.bind(LOG, seed=0), np.random.default_rng(2)
    if not isinstance(sampler, vr.InBatch):
        return bound(users=np.full(rows, user), positives=np.full(rows, positive), k=k)
    found = []
    for _ in range(rows):
        others = rng.integers(0, len(LOG), k)
        batch = {"users": np.append(user, LOG.users[others]), "positives": np.append(positive, LOG.items[others])}
        found.append(bound(**batch))
    return vr.Draw(
        *(np.stack([getattr(draw, name)[0] for draw in found]) for name in ("ids", "weights", "tries", "log_q"))
    )


@pytest.mark.parametrize("sampler", [vr.InBatch(), vr.Popularity(1.0), vr.Mixed("uni", vr.Popularity(1.0))], ids=repr)
def test_corrected_gradients_approach_those_of_the_full_softmax(sampler):
    """The mean gradient by each item's score, against the softmax over the positive and all unseen items."""
    from vitalrank.engines.correcting import corrected

    user, scores = 3, np.random.default_rng(1).normal(size=LOG.n_items)
    seen = LOG.items[LOG.users == user]
    positive, unseen = int(seen[0]), np.setdiff1d(np.arange(LOG.n_items), seen)
    full = np.zeros(LOG.n_items)
    full[[positive, *unseen]] = np.exp(scores[[positive, *unseen]])
    full = full / full.sum() - np.eye(LOG.n_items)[positive]
    draw = draws_of(sampler, user, positive, rows=120, k=200)
    errors = {}
    for correct in ("none", "logq"):
        weights = corrected(draw, TrainConfig(loss="softmax", correct=correct), np).weights
        pos = torch.full((len(draw.ids),), scores[positive], dtype=torch.float64, requires_grad=True)
        neg = torch.tensor(scores[draw.ids.clip(0)], requires_grad=True)
        losses.softmax(pos, neg, torch.from_numpy(weights.astype(np.float64))).backward()
        found = np.bincount(draw.ids.clip(0).ravel(), neg.grad.numpy().ravel(), LOG.n_items)
        found[positive] += float(pos.grad.sum())
        errors[correct] = abs(found - full).max()
    assert errors["logq"] < 0.01 < errors["none"] / 3
