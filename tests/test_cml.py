"""CML: points in the unit ball, a hinge in squared distance, and the sampler that goes with it."""

import numpy as np
import pytest
import torch

import vitalrank as vr
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError
from vitalrank.samplers.adapter import SamplerAdapter

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=60, items=40, interactions=900, seed=1)


def points(model):
    users = np.arange(model.train.n_users)
    return model.queries(users)[:, : model.dim], model.item_table[:, : model.dim]


@pytest.mark.parametrize("covariance", [0.0, 1.0])
def test_every_point_lies_in_the_unit_ball_and_scores_order_as_distances(log, covariance):
    model = vr.CML(dim=5, covariance=covariance).fit(log, epochs=5, lr=0.05, batch=128)
    users, items = points(model)
    assert np.linalg.norm(users, axis=1).max() <= 1 + 1e-6
    assert np.linalg.norm(items, axis=1).max() <= 1 + 1e-6
    np.testing.assert_allclose(model.item_table[:, 5], -(items**2).sum(1) / 2, rtol=1e-5, atol=1e-7)
    distances = ((users[:, None] - items) ** 2).sum(2)
    expected = ((users**2).sum(1, keepdims=True) - distances) / 2
    np.testing.assert_allclose(model.scores(np.arange(log.n_users), 0, log.n_items), expected, rtol=1e-4, atol=1e-5)


def test_a_step_is_that_of_the_weighted_hinge_in_squared_distance(log):
    """By hand: hardest of W within the margin, weight ln(1 + n M / W), one SGD step, then the clip."""
    config = TrainConfig(loss="hinge", margin=1.2, reg=0.0, optimizer="sgd", batch=len(log), seed=2)
    model = vr.CML(dim=3)
    sampler = vr.samplers.CML(candidates=6, margin=1.2).bind(log, seed=2)
    engine = model.build(log, sampler, config)
    users, items = (part.astype(np.float64) for part in points(model))
    seen = []
    engine._sampler = SamplerAdapter(
        lambda **call: seen.append((call, sampler(**call))) or seen[-1][1], seed=0, n_items=log.n_items
    )
    rate = 1e-3
    totals = engine.run_epoch(1, lambda share: rate, lambda totals: None)
    ((call, draw),) = seen
    pulls = np.zeros_like(users), np.zeros_like(items)
    loss = 0.0
    columns = (call["users"], call["positives"], draw.ids[:, 0], draw.weights[:, 0])
    for u, i, j, weight in zip(*(column.tolist() for column in columns), strict=True):
        to_i, to_j = users[u] - items[i], users[u] - items[j]
        excess = 1.2 + to_i @ to_i - to_j @ to_j
        if excess > 0:
            loss += weight * excess
            pulls[0][u] += 2 * weight * (to_i - to_j)
            pulls[1][i] -= 2 * weight * to_i
            pulls[1][j] += 2 * weight * to_j
    assert totals.loss == pytest.approx(loss, rel=1e-4)
    for found, table, pull in zip(points(model), (users, items), pulls, strict=True):
        moved = table - rate * pull
        moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1.0)
        np.testing.assert_allclose(found, moved, rtol=1e-3, atol=1e-5)


def between_dimensions(vectors):
    shared = np.cov(vectors.T)
    return (shared**2).sum() - (np.diag(shared) ** 2).sum()


def test_the_covariance_term_is_that_of_the_points_of_a_batch(log):
    model = vr.CML(dim=4, covariance=3.0)
    model.build(log, vr.Uniform().bind(log, seed=0), TrainConfig(loss="hinge"))
    users, items = points(model)
    network, who, ids = model.network, torch.tensor([3, 1, 7]), torch.tensor([[0, 5], [2, 2], [9, 4]])
    network.score(network.encode(who, None), ids)
    batch = np.concatenate([users[who], items[ids.flatten()]])
    assert network.auxiliary_loss().item() == pytest.approx(3.0 * between_dimensions(batch), rel=1e-4)


def test_the_covariance_term_spreads_the_dimensions(log):
    def shared(covariance):
        model = vr.CML(dim=8, covariance=covariance).fit(log, vr.Uniform(), epochs=10, lr=0.02, batch=128)
        return between_dimensions(np.concatenate(points(model)))

    assert shared(3000.0) < 0.5 * shared(0.0)


def test_it_learns_and_takes_any_sampler(log):
    train, test = log.split_last(0.2)
    popular = vr.evaluate(vr.MostPopular().fit(train), test, at=10)["ndcg@10"]
    for sampler in (None, vr.VINS(), vr.DNS(candidates=4)):
        model = vr.CML(dim=16).fit(train, sampler, epochs=25, lr=0.02, batch=128)
        assert model.history[-1]["loss"] < model.history[0]["loss"]
        assert vr.evaluate(model, test, at=10)["ndcg@10"] > 0.8 * popular


def test_its_own_sampler_takes_the_margin_of_the_loss():
    assert vr.CML().default_sampler(TrainConfig(margin=0.7)) == vr.samplers.CML(margin=0.7)


def test_near_items_are_similar(log):
    model = vr.CML(dim=4).fit(log, epochs=2)
    _, items = points(model)
    distances = ((items - items[7]) ** 2).sum(1)
    distances[7] = np.inf
    assert model.train.item_index(model.similar_items(log.item_ids[7], n=1)[0])[0] == distances.argmin()


def test_other_losses_are_refused(log):
    with pytest.raises(SettingError, match="CML trains with loss='hinge'"):
        vr.CML().fit(log, loss="bpr")
