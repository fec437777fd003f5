"""LightGCN: propagation and gradients against dense matrices, what is served after training, someone new."""

import numpy as np
import pytest
import torch

import vitalrank as vr
from vitalrank.config import TrainConfig
from vitalrank.models.lightgcn import graph_of

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=20, items=15, interactions=90, seed=3)


def dense_graph(log):
    """The normalized adjacency, cell by cell."""
    graph = np.zeros((log.n_users + log.n_items,) * 2)
    for user, item in zip(log.users, log.items, strict=True):
        weight = 1 / np.sqrt(log.user_degree[user] * log.item_degree[item])
        graph[user, log.n_users + item] = graph[log.n_users + item, user] = weight
    return torch.from_numpy(graph)


def smoothed(graph, table, layers):
    """The mean of the powers of the graph, applied to the table."""
    return sum(torch.matrix_power(graph, k) @ table for k in range(layers + 1)) / (layers + 1)


def tables(model):
    values = model.tensors()
    return torch.from_numpy(np.concatenate([values["network.users.weight"], values["network.items.weight"]])).double()


def test_the_graph_is_symmetric_and_normalized(log):
    np.testing.assert_allclose(graph_of(log).to_dense(), dense_graph(log), rtol=1e-6)


def test_an_item_without_training_rows_keeps_its_own_vector():
    train, _ = vr.Interactions.from_arrays([1, 1, 2, 2], ["a", "b", "a", "c"]).split_last(0.5)
    assert (train.item_degree == 0).any()
    model = vr.LightGCN(dim=4, layers=2).fit(train, vr.Uniform(), epochs=1)
    item = int(np.flatnonzero(train.item_degree == 0)[0])
    own = model.tensors()["network.items.weight"][item]
    np.testing.assert_allclose(model.item_table[item], own / 3, rtol=1e-5)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_what_is_served_is_propagated_from_the_last_values(log, layers):
    model = vr.LightGCN(dim=4, layers=layers).fit(log, vr.VINS(), epochs=3, lr=0.05, batch=32)
    wanted = smoothed(dense_graph(log), tables(model), layers).float().numpy()
    np.testing.assert_allclose(model.queries(np.arange(log.n_users)), wanted[: log.n_users], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.item_table, wanted[log.n_users :], rtol=1e-4, atol=1e-6)


def test_serving_propagates_once(log, monkeypatch):
    model = vr.LightGCN(dim=4, layers=2).fit(log, vr.Uniform(), epochs=1)
    model.queries(np.arange(3))
    monkeypatch.setattr(model.network, "layer_tables", None)  # not to be called again
    model.recommend(log.user_ids, n=3)


@pytest.mark.parametrize("layers", [0, 2])
def test_a_step_moves_by_the_gradient_of_dense_matrices(log, layers):
    model, reg = vr.LightGCN(dim=4, layers=layers), 0.3
    config = TrainConfig(batch=len(log), optimizer="sgd", reg=reg, seed=4)
    engine = model.build(log, vr.DNS().bind(log, seed=4), config)
    model.network.clip = None
    before, calls = tables(model).requires_grad_(), []
    sampler = engine._sampler
    take = sampler.draw
    sampler.draw = lambda request: calls.append((request, take(request))) or calls[-1][1]
    engine.run_epoch(1, lambda share: 1.0, lambda totals: None)
    ((request, draw),) = calls
    users, positives, negatives = (torch.as_tensor(np.asarray(a)) for a in (request.users, request.positives, draw.ids))
    found = smoothed(dense_graph(log), before, layers)
    items = found[log.n_users :]
    np.testing.assert_allclose(request.table, items.detach().numpy(), rtol=1e-4, atol=1e-6)  # the sampler reads these
    lead = (found[users.long()] * (items[positives.long()] - items[negatives[:, 0]])).sum(1)
    rows = torch.cat([users.long(), log.n_users + positives.long(), log.n_users + negatives[:, 0]])
    loss = (torch.log1p(torch.exp(-lead)).sum() + reg / 2 * (before[rows] ** 2).sum()) / len(users)
    (slope,) = torch.autograd.grad(loss, before)
    np.testing.assert_allclose(tables(model), (before - slope).detach(), rtol=1e-4, atol=1e-6)


def test_someone_new_is_a_node_without_a_vector(log):
    model = vr.LightGCN(dim=4, layers=2).fit(log, vr.Uniform(), epochs=3, lr=0.05, batch=32)
    history = np.array([2, 7, 11])
    graph, table = dense_graph(log), tables(model)
    layers = [table, graph @ table]
    weights = 1 / np.sqrt(3 * log.item_degree[history])
    wanted = sum(weights @ one[log.n_users + history].numpy() for one in layers) / 3
    np.testing.assert_allclose(model.query_of(history), wanted, rtol=1e-4, atol=1e-6)


def test_it_learns_and_layers_help_on_a_sparse_log():
    train, test = vr.datasets.synthetic(users=400, items=300, interactions=6000, seed=0).split_last(0.2)
    found = {}
    for layers in (0, 2):
        model = vr.LightGCN(dim=16, layers=layers)
        model.fit(train, vr.Uniform(), epochs=15, lr=0.01, batch=512, threads=1, progress=False)
        assert model.history[-1]["loss"] < 0.9 * model.history[0]["loss"]
        found[layers] = vr.evaluate(model, test, at=10)["ndcg@10"]
    assert found[2] > found[0]


def test_bfloat16_is_accepted(log):
    model = vr.LightGCN(dim=4, layers=2).fit(log, vr.Uniform(), epochs=1, precision="bfloat16")
    assert np.isfinite(model.item_table).all()
