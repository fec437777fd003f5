"""IRGAN: the policy gradient is that of the expected reward, and either player can be served."""

import threading

import numpy as np
import pytest
import torch

import vitalrank as vr
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=60, items=40, interactions=900, seed=1)


def network_of(log, draws=2, role="generator"):
    model = vr.IRGAN(dim=4, role=role, warm=0, draws=draws)
    model.build(log, vr.samplers.IRGAN().bind(log, seed=0), TrainConfig())
    torch.manual_seed(0)
    for parameter in model.network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model


def with_one(vectors):
    return torch.cat([vectors, torch.ones(len(vectors), 1)], 1)


def test_the_policy_gradient_is_the_gradient_of_the_expected_reward(log):
    model = network_of(log, draws=40_000)
    network = model.network.train()
    # Every item of the user in turn: only then are the rows' positives uniform over the user's items.
    user = 5
    items = torch.from_numpy(log.items[log.indptr[user] : log.indptr[user + 1]].astype(np.int64))
    users = torch.full_like(items, user)
    network.score(network.encode(users, None), items[:, None])
    network.auxiliary_loss().backward()
    found = network.generator.items.weight.grad / len(items)

    network.zero_grad()
    query = with_one(network.generator.users.weight[user : user + 1])
    p = torch.softmax(query @ network.generator.items.weight.T, 1)[0]
    judge = network.discriminator
    reward = 2 * torch.sigmoid(with_one(judge.users.weight[user : user + 1]) @ judge.items.weight.T)[0] - 1
    (-(p * reward.detach()).sum()).backward()
    expected = network.generator.items.weight.grad
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.003)
    assert judge.items.weight.grad is None


def test_the_discriminator_is_trained_on_what_the_generator_proposes(log):
    network = network_of(log).network.train()
    users = torch.tensor([3, 9])
    encoded = network.encode(users, None)
    torch.testing.assert_close(encoded, with_one(network.discriminator.users.weight[users]))
    asked = network.sampler_inputs(encoded)
    torch.testing.assert_close(asked["queries"], with_one(network.generator.users.weight.detach()[users]))
    assert asked["item_table"].data_ptr() == network.generator.items.weight.data_ptr()


@pytest.mark.parametrize("role", ["generator", "discriminator"])
def test_the_role_says_who_is_served(log, role):
    model = network_of(log, role=role)
    model.release_training_state()
    player = getattr(model.network, role)
    expected = with_one(player.users.weight) @ player.items.weight.T
    np.testing.assert_allclose(model.scores(np.arange(60), 0, 40), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_the_generator_begins_where_dns_left_off(log):
    config = TrainConfig(seed=3, threads=1)
    model = vr.IRGAN(dim=4, warm=3)
    model.build(log, vr.samplers.IRGAN().bind(log, seed=3), config)
    start = vr.MF(dim=4, bias=True).fit(log, vr.DNS(), epochs=3, seed=3, threads=1)
    model.release_training_state()
    users = np.arange(log.n_users)
    np.testing.assert_array_equal(model.item_table, start.item_table)
    np.testing.assert_array_equal(model.queries(users), start.queries(users))


@pytest.mark.parametrize(("role", "lr"), [("generator", 0.001), ("discriminator", 0.01)])
def test_the_game_improves_on_where_each_player_began(role, lr):
    train, test = vr.datasets.synthetic(users=200, items=150, interactions=4000, seed=1).split_last(0.2)
    options = {"reg": 1e-3, "batch": 256, "threads": 1}
    played = vr.IRGAN(dim=8, role=role, warm=1).fit(train, epochs=20, lr=lr, **options)
    begun = vr.IRGAN(dim=8, role=role, warm=1).fit(train, epochs=1, lr=1e-9, **options)
    assert vr.evaluate(played, test, at=10)["ndcg@10"] > 1.25 * vr.evaluate(begun, test, at=10)["ndcg@10"]


def test_a_stopped_run_resumes_with_the_same_bits(log, tmp_path):
    options = {"epochs": 4, "batch": 128}
    whole = vr.IRGAN(dim=4, warm=2).fit(log, **options)
    stop = [lambda record, model: record["epoch"] == 2]
    vr.IRGAN(dim=4, warm=2).fit(log, checkpoint=tmp_path / "run", callbacks=stop, **options)
    parts = vr.IRGAN(dim=4, warm=2).fit(log, checkpoint=tmp_path / "run", resume=True, **options)
    for name, array in whole.tensors().items():
        np.testing.assert_array_equal(parts.tensors()[name], array)


def test_others_who_draw_random_numbers_leave_the_game_alone(log):
    options = {"epochs": 3, "batch": 64}
    alone = vr.IRGAN(dim=4, warm=1).fit(log, **options)
    done = threading.Event()

    def draw_on():
        while not done.is_set():
            torch.rand(16)

    other = threading.Thread(target=draw_on)

    def begin(record, model):
        if not other.ident:
            other.start()

    try:
        beside = vr.IRGAN(dim=4, warm=1).fit(log, callbacks=[begin], **options)
    finally:
        done.set()
        other.join()
    for name, array in alone.tensors().items():
        np.testing.assert_array_equal(beside.tensors()[name], array)


def test_unknown_roles_are_refused():
    with pytest.raises(SettingError, match="unknown role 'critic'; choose one of generator, discriminator"):
        vr.IRGAN(role="critic")
