"""Scores that are cosines: each engine steps as autograd on normalized vectors, and everything serves cosines."""

from __future__ import annotations

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
unit = torch.nn.functional.normalize

LOG = vr.datasets.synthetic(users=12, items=15, interactions=40, seed=0)
LR, K = 0.05, 3
CONFIG = TrainConfig(
    batch=len(LOG), negatives=K, optimizer="sgd", reg=0.0, lr=LR, epochs=1, loss="softmax", temperature=0.2
)
DEVICE = "cuda" if "VITALRANK_TEST_GPU" in os.environ else "cpu"  # else interpreted
FIT = {"epochs": 3, "seed": 0, "progress": False, "loss": "softmax", "temperature": 0.2, "negatives": 4}


def step_aside(queries=None, item_table=None, users=None, positives=None, step=0, k=K):
    """Negatives that follow from the positive alone."""
    here = np.asarray(torch.as_tensor(positives).cpu())
    ids = (here[:, None] + 1 + np.arange(k)) % LOG.n_items
    made = vr.Draw(ids, np.ones(ids.shape, np.float32), np.full(len(here), k))
    if not isinstance(positives, torch.Tensor):
        return made
    return vr.Draw(*(torch.as_tensor(part).to(positives.device) for part in (made.ids, made.weights, made.tries)))


def moved(users, items):
    """The tables after one step of the cosine's gradient."""
    users, items = (torch.tensor(table, requires_grad=True) for table in (users, items))
    who, what = (torch.as_tensor(np.asarray(x)).long() for x in (LOG.users, LOG.items))
    queries, rows = unit(users)[who], unit(items)
    pos = (queries * rows[what]).sum(1) / CONFIG.temperature
    neg = (queries[:, None] * rows[step_aside(positives=what).ids]).sum(2) / CONFIG.temperature
    (losses.softmax(pos, neg) * len(LOG)).backward()
    return [(table - LR * table.grad).detach() for table in (users, items)]


def assert_step(engine):
    start = {name: np.array(table) for name, table in engine.values().items()}
    for table in start.values():
        np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1.0, atol=1e-6)
    engine.run_epoch(1, lambda share: LR, lambda totals: None)
    found = engine.to_numpy(engine.copy())
    for name, table in zip(("users", "items"), moved(start["users"], start["items"]), strict=True):
        np.testing.assert_allclose(found[name], unit(table).numpy(), rtol=2e-4, atol=2e-5)


def test_the_cpu_steps_as_autograd():
    assert_step(CpuEngine(LOG, step_aside, CONFIG, VectorShape(5, False, normalize=True)))


def test_the_gpu_steps_as_autograd():
    pytest.importorskip("triton", minversion="3.6")
    from vitalrank.engines.mf_gpu import GpuEngine

    assert_step(GpuEngine(LOG, step_aside, CONFIG, VectorShape(5, False, normalize=True), DEVICE))


def test_torch_steps_as_autograd():
    encoder, table = torch.nn.Embedding(LOG.n_users, 5), torch.nn.Embedding(LOG.n_items, 5)
    model = vr.TorchRecommender(encoder, table, normalize=True)
    start = [part.weight.detach().numpy().copy() for part in (encoder, table)]
    model.build(LOG, step_aside, CONFIG).run_epoch(1, lambda share: LR, lambda totals: None)
    for part, wanted in zip((encoder, table), moved(*start), strict=True):
        torch.testing.assert_close(part.weight.detach(), wanted, rtol=2e-4, atol=2e-5)


def test_candidates_of_sasrec_are_scored_as_by_normalized_copies():
    from vitalrank.models.networks import DotNetwork

    model = vr.SASRec(dim=4, length=3, dropout=0.0, normalize=True)
    model.build(LOG, vr.Uniform().bind(LOG), TrainConfig(**model.defaults))
    torch.nn.init.normal_(model.network.items.weight)
    ids = torch.tensor([[0, 3, 3], [5, 0, 7]])
    found = []
    for score in (type(model.network).score, DotNetwork.score):
        encoded = torch.arange(8.0).reshape(2, 4).requires_grad_()
        model.network.zero_grad()
        scores = score(model.network, encoded, ids)
        (scores * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
        found.append((scores, encoded.grad, model.network.items.weight.grad.to_dense()))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain)


def models():
    return {
        "mf": vr.MF(dim=6, normalize=True),
        "sasrec": vr.SASRec(dim=6, length=5, normalize=True),
        "lightgcn": vr.LightGCN(dim=6, layers=2, normalize=True),
        "own": vr.TorchRecommender(torch.nn.Embedding(30, 6), torch.nn.Embedding(25, 6), normalize=True),
    }


@pytest.mark.parametrize("name", ["mf", "sasrec", "lightgcn", "own"])
@pytest.mark.parametrize("sampler", [vr.Uniform(), vr.DNS(4)], ids=["uni", "dns"])
def test_everything_serves_cosines(name, sampler, tmp_path):
    log = vr.datasets.synthetic(users=30, items=25, interactions=300, seed=1)
    model = models()[name].fit(log, sampler, **FIT)
    users, items = model.queries(np.arange(log.n_users)), model.item_table
    for vectors in (users, items):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    ids, scores = model.recommend(log.user_ids[:3], n=4)
    best = np.sort(np.where(log.csr[:3].toarray() > 0, -np.inf, users[:3] @ items.T), axis=1)[:, ::-1][:, :4]
    np.testing.assert_allclose(scores, best, atol=1e-5)
    assert abs(scores).max() <= 1 + 1e-5
    _, folded = model.fold_in(log.item_ids[:3], n=5)
    assert np.isfinite(folded).all()
    assert abs(folded).max() <= 1 + 1e-5
    assert np.linalg.norm(model.query_of(np.arange(3))) == pytest.approx(1.0, abs=1e-5)
    model.export(tmp_path / "vectors")
    np.testing.assert_array_equal(np.load(tmp_path / "vectors" / "items.npy"), items)
    np.testing.assert_allclose(np.load(tmp_path / "vectors" / "users.npy"), users, atol=1e-6)
    model.save(tmp_path / "model")
    again = vr.load(tmp_path / "model")
    assert again.normalize
    np.testing.assert_array_equal(again.recommend(log.user_ids[:3], n=4)[0], ids)


def test_parts_of_an_explanation_are_those_of_the_cosine():
    log = vr.datasets.synthetic(users=30, items=25, interactions=300, seed=1)
    model = vr.MF(dim=6, normalize=True).fit(log, vr.Uniform(), **FIT)
    items = np.array([1, 4, 9])
    parts = model.contributions(items, 7)
    assert parts.sum() == pytest.approx(float(model.query_of(items) @ model.item_table[7]), abs=0.02)


def test_bits_do_not_depend_on_threads_and_a_stopped_run_resumes_exactly(tmp_path):
    log = vr.datasets.synthetic(users=200, items=100, interactions=6000, seed=1)

    def fit(epochs, **options):
        model = vr.MF(dim=8, normalize=True)
        return model.fit(
            log, vr.VINS(margin=0.1), **{**FIT, "loss": "bpr", "negatives": 1, "epochs": epochs}, **options
        )

    whole = fit(2, threads=1)
    fit(1, checkpoint=tmp_path / "run")
    resumed = fit(2, checkpoint=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.item_table, whole.item_table)


def test_rows_of_a_new_day_get_length_1():
    log = vr.Interactions.from_arrays([1, 1, 2, 2, 3], [1, 2, 2, 3, 1])
    model = vr.MF(dim=4, normalize=True).fit(log, vr.Uniform(), **FIT)
    grown = log.extend(vr.Interactions.from_arrays([4, 4, 1], [1, 9, 9]))
    later = vr.MF(dim=4, normalize=True).fit(grown, vr.Uniform(), start=model, epochs=1, lr=1e-9, progress=False)
    for table in (later.queries(np.arange(grown.n_users)), later.item_table):
        np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(later.item_table[: log.n_items], model.item_table, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vr.MF(bias=True, normalize=True), "bias and normalize"),
        (lambda: vr.MF(dim=4, normalize=True).fit(LOG, vr.Uniform(), reg=0.1), "reg is 0.1"),
        (lambda: vr.TorchRecommender(score=torch.nn.Linear(1, 1), normalize=True), "score= takes the place"),
    ],
    ids=["bias", "reg", "score"],
)
def test_what_cosines_exclude(make, words):
    with pytest.raises(SettingError, match=words):
        make()
