"""FPMC and MARank: contexts by position, scores and gradients by hand, and a planted order that MF cannot see."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vitalrank as vr
from vitalrank.config import TrainConfig
from vitalrank.interactions.histories import Histories, repeat_last
from vitalrank.samplers.adapter import SamplerAdapter

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=12, items=15, interactions=70, seed=3)


# ------------------------------------------------------------------------------------------------------ contexts


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=40, unique=True), st.integers(1, 5)
)
def test_contexts_are_slices_of_the_histories(pairs, length):
    users, items = zip(*pairs, strict=True)
    log = vr.Interactions.from_arrays(users, items, np.arange(len(pairs)))
    rows = np.arange(len(log))
    histories = Histories(log)
    before = histories.before(torch.from_numpy(rows), length)
    last = histories.last(torch.arange(log.n_users), length)
    for user in range(log.n_users):
        first, end = log.indptr[user], log.indptr[user + 1]
        history = log.items[first:end].tolist()
        for row in range(first, end):
            found = [item for item in before[row].tolist() if item >= 0]
            assert found == history[: row - first][-length:]
            assert before[row].tolist() == found + [-1] * (length - len(found))
        assert [item for item in last[user].tolist() if item >= 0] == history[-length:]


def test_repeated_last_items_fill_a_short_history():
    context = torch.tensor([[1, 2, 3], [4, 5, -1], [6, -1, -1], [-1, -1, -1]])
    assert repeat_last(context).tolist() == [[1, 2, 3], [4, 5, 5], [6, 6, 6], [-1, -1, -1]]


# ------------------------------------------------------------------------------------- scores written out by hand


def weights_of(model):
    return {name: value.numpy().astype(np.float64) for name, value in model.network.state_dict().items()}


def plain_fpmc(p, user, history, item, length):
    d = p["users.weight"].shape[1]
    score = p["users.weight"][user] @ p["items.weight"][item, :d]
    basket = history[-length:]
    return score + sum(p["baskets.weight"][one] @ p["items.weight"][item, d:] for one in basket) / max(len(basket), 1)


def plain_attention(p, name, vectors, key=None):
    logits = []
    for vector in vectors:
        hidden = p[f"{name}.of_vector.weight"] @ vector + p[f"{name}.of_vector.bias"]
        if key is not None:
            hidden = hidden + p[f"{name}.of_key.weight"] @ key
        logits.append(float(p[f"{name}.out.weight"][0] @ np.tanh(hidden)))
    shares = np.exp(logits) / np.exp(logits).sum()
    return sum(share * vector for share, vector in zip(shares, vectors, strict=True))


def plain_layer(p, name, vector):
    return np.maximum(vector + p[f"{name}.linear.weight"] @ vector + p[f"{name}.linear.bias"], 0.0)


def plain_marank(p, user, history, item, length, orders=2, layers=2):
    own = p["users.weight"][user]
    score = own @ p["items.weight"][2 * item]
    if not history:
        return score
    recent = history[-length:]
    recent = recent + [recent[-1]] * (length - len(recent))
    vectors = [p["items.weight"][2 * one + 1] for one in recent]
    results = [plain_attention(p, "over_items.0", vectors, own) + vectors[-1]]
    for order in range(orders):
        own = plain_layer(p, f"user_layers.{order}", own)
        vectors = [plain_layer(p, f"item_layers.{order}", vector) for vector in vectors]
        results.append(plain_attention(p, f"over_items.{order + 1}", vectors, own))
    mixed = plain_attention(p, "over_orders", results)
    deep = mixed
    for layer in range(layers):
        deep = plain_layer(p, f"last_layers.{layer}", deep)
    return score + (deep + mixed) @ p["items.weight"][2 * item + 1]


CASES = {
    "FPMC": (lambda: vr.FPMC(dim=3, length=2), plain_fpmc, 2),
    "MARank": (lambda: vr.MARank(dim=3, length=4, dropout=0.0), plain_marank, 4),
}


def lively(model, log, sampler=None, **options):
    """The model's engine, with values large enough that every part of the score matters."""
    config = TrainConfig(**options)
    engine = model.build(log, (sampler or vr.Uniform()).bind(log, seed=config.seed), config)
    torch.manual_seed(1)
    for parameter in model.network.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return engine


@pytest.mark.parametrize("name", CASES)
def test_scores_equal_those_written_out_by_hand(name, log):
    make, plain, length = CASES[name]
    model = make()
    lively(model, log)
    model.release_training_state()
    found = model.scores(np.arange(log.n_users), 0, log.n_items)
    p = weights_of(model)
    for user in range(log.n_users):
        history = log.items[log.indptr[user] : log.indptr[user + 1]].tolist()
        expected = [plain(p, user, history, item, length) for item in range(log.n_items)]
        np.testing.assert_allclose(found[user], expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_step_moves_by_the_gradient_of_the_loss_written_out_by_hand(name, log):
    make, plain, length = CASES[name]
    model, reg = make(), 0.05
    options = {"batch": len(log), "optimizer": "sgd", "reg": reg, "seed": 4}
    engine = lively(model, log, **options)
    model.network.clip = None
    before = weights_of(model)
    seen = []
    sampler = engine._sampler
    engine._sampler = SamplerAdapter(
        lambda **call: seen.append((call, sampler(**call))) or seen[-1][1], seed=0, n_items=log.n_items
    )
    engine._sampler.needs_scores = False
    engine.run_epoch(1, lambda share: 1.0, lambda totals: None)
    ((call, draw),) = seen
    users, positives, negatives = call["users"].tolist(), call["positives"].tolist(), draw.ids[:, 0].tolist()

    def loss(p):
        total = 0.0
        for user, i, j in zip(users, positives, negatives, strict=True):
            history = log.items[log.indptr[user] : log.indptr[user + 1]].tolist()
            history = history[: history.index(i)]
            lead = plain(p, user, history, i, length) - plain(p, user, history, j, length)
            total += np.log1p(np.exp(-lead)) + reg / 2 * penalty(p, user, i, j, history)
        return total

    def penalty(p, user, i, j, history):
        squares = (p["users.weight"][user] ** 2).sum()
        for item in (i, j):
            rows = [item] if name == "FPMC" else [2 * item, 2 * item + 1]
            squares += (p["items.weight"][rows] ** 2).sum()
        return squares + sum((p["baskets.weight"][one] ** 2).sum() for one in history[-length:] if name == "FPMC")

    after = weights_of(model)
    rng = np.random.default_rng(0)
    for parameter, values in before.items():
        share = 1.0 if parameter in ("users.weight", "items.weight", "baskets.weight") else 1.0 / len(users)
        for flat in rng.choice(values.size, min(values.size, 4), replace=False):
            place = np.unravel_index(flat, values.shape)
            sides = []
            for change in (1e-5, -1e-5):
                bent = {**before, parameter: values.copy()}
                bent[parameter][place] += change
                sides.append(loss(bent))
            slope = (sides[0] - sides[1]) / 2e-5
            assert values[place] - after[parameter][place] == pytest.approx(share * slope, rel=2e-3, abs=2e-4), (
                parameter
            )


# --------------------------------------------------------------------------------------------------------- MARank


def test_attention_weights_sum_to_one_and_shapes_fit():
    from vitalrank.models.marank import Attention

    attention = Attention(dim=5, dropout=0.5).eval()
    vectors, key = torch.randn(7, 4, 5), torch.randn(7, 5)
    weights = attention.weights(vectors, key)
    assert weights.shape == (7, 4)
    assert (weights > 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(7))
    torch.testing.assert_close(attention(vectors, key), torch.einsum("bl,bld->bd", weights, vectors))
    constant = vectors[:, :1].expand(-1, 4, -1)
    torch.testing.assert_close(attention.weights(constant, key), torch.full((7, 4), 0.25))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_dropout_drops_its_share_keeps_the_mean_and_follows_the_seed(share):
    from vitalrank.models.networks import Dropout

    dropout, x = Dropout(share), torch.ones(999, 101, requires_grad=True)
    torch.manual_seed(0)
    first = dropout(x)
    assert float((first == 0).float().mean()) == pytest.approx(share, abs=0.01)
    assert float(first.detach().mean()) == pytest.approx(1.0, abs=0.03)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], first.detach())
    again = dropout(x)
    assert torch.equal(first, again) == (share == 0.0)
    torch.manual_seed(0)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout.eval()(x), x)


def test_a_short_history_counts_as_one_that_repeats_its_last_item(log):
    model = vr.MARank(dim=3, length=4)
    lively(model, log)
    model.release_training_state()
    users = torch.randn(2, 3)
    short, padded = torch.tensor([[5, 2, -1, -1]] * 2), torch.tensor([[5, 2, 2, 2]] * 2)
    with torch.no_grad():
        torch.testing.assert_close(model.network.query(users, short), model.network.query(users, padded))
        assert not torch.allclose(model.network.query(users, short), model.network.query(users, padded.flip(1)))
        nothing = model.network.query(users, torch.full((2, 4), -1))
    torch.testing.assert_close(nothing, torch.cat([users, torch.zeros(2, 3)], 1))


def test_the_sampler_reads_the_item_table_in_place(log):
    for model in (vr.FPMC(dim=3), vr.MARank(dim=3)):
        lively(model, log)
        assert model.item_table.shape == (log.n_items, 6)
        assert np.shares_memory(model.item_table, model.network.items.weight.detach().numpy())
        rows = model.network.rows(torch.arange(log.n_items)).detach().numpy()
        np.testing.assert_array_equal(rows, model.item_table)


def test_positives_without_history_are_left_out_by_marank_and_trained_by_fpmc(log):
    marank = vr.MARank(dim=3).fit(log, vr.Uniform(), epochs=1)
    assert marank.history[0]["without_history"] == log.n_users
    assert marank.history[0]["skipped"] == 0
    trained = vr.FPMC(dim=3).fit(log, vr.Uniform(), epochs=1).history[0]
    assert (trained["without_history"], trained["skipped"]) == (log.n_users, 0)
    single = vr.Interactions.from_arrays([1, 2, 3, 4], [7, 8, 9, 7])
    fpmc = vr.FPMC(dim=3)
    engine = fpmc.build(single, vr.Uniform().bind(single, seed=0), TrainConfig(epochs=1, reg=0.0, lr=0.1))
    before = {name: array.copy() for name, array in engine.values().items()}
    engine.run_epoch(1, lambda share: 0.1, lambda totals: None)
    after = engine.values()
    assert not np.array_equal(after["network.users.weight"], before["network.users.weight"])
    np.testing.assert_array_equal(after["network.baskets.weight"], before["network.baskets.weight"])
    np.testing.assert_array_equal(after["network.items.weight"][:, 3:], before["network.items.weight"][:, 3:])
    only_firsts = vr.MARank(dim=3).fit(single, vr.Uniform(), epochs=1)
    assert only_firsts.history[0]["without_history"] == 4


# ------------------------------------------------------------------------------------------------------- learning


@pytest.fixture(scope="module")
def planted():
    return vr.datasets.synthetic(users=250, items=100, interactions=6000, seed=0, sequence=0.8).split_last(0.1)


def hits_of_the_successor(model, train):
    """How often the item that follows a user's last one elsewhere in the log comes first."""
    following = {}
    for user in range(train.n_users):
        history = train.items[train.indptr[user] : train.indptr[user + 1]].tolist()
        for one, after in itertools.pairwise(history):
            following.setdefault(one, []).append(after)
    last = train.items[train.indptr[1:] - 1]
    wanted = np.array([max(set(found), key=found.count) if (found := following.get(item)) else -1 for item in last])
    unseen = np.array([item >= 0 and train.csr[user, item] == 0 for user, item in enumerate(wanted)])
    scores = model.scores(np.arange(train.n_users), 0, train.n_items) - 1e9 * train.csr.toarray()
    return float((scores.argmax(1) == wanted)[unseen].mean())


def test_fpmc_and_marank_learn_the_planted_order_and_mf_does_not(planted):
    train, test = planted
    options = {"epochs": 20, "lr": 0.01, "reg": 1e-3, "batch": 512, "threads": 1}
    found, hits = {}, {}
    for model in (vr.MF(dim=16), vr.FPMC(dim=16), vr.MARank(dim=16)):
        name = type(model).__name__
        model.fit(train, vr.Uniform(), **options)
        found[name] = vr.evaluate(model, test, at=5)["ndcg@5"]
        hits[name] = hits_of_the_successor(model, train)
    assert found["FPMC"] > 2 * found["MF"]
    assert found["MARank"] > 2 * found["MF"]
    assert hits["MF"] < 0.2
    assert min(hits["FPMC"], hits["MARank"]) > 0.5


HISTORY = np.array([4, 7, 1, 9, 12, 30, 8, 22])  # oldest first


def trained(model, train):
    return model.fit(train, vr.Uniform(), epochs=2, lr=0.01, batch=512, threads=1)


def test_the_basket_of_someone_new_is_the_mean_of_their_last_items(planted):
    model = trained(vr.FPMC(dim=16, length=3), planted[0])
    baskets = model.network.baskets.weight.detach().numpy()
    np.testing.assert_allclose(model.query_of(HISTORY)[16:], baskets[HISTORY[-3:]].mean(0), rtol=1e-5)


def test_the_context_of_someone_new_is_their_last_items(planted):
    """The user's own half, which all items of a history move, is taken as it is."""
    model = trained(vr.MARank(dim=16, length=3), planted[0])
    query = model.query_of(HISTORY)
    own = torch.from_numpy(query[None, :16])

    def context(items):
        with torch.no_grad():
            return model.network.query(own, torch.from_numpy(items[None]))[0, 16:].numpy()

    np.testing.assert_allclose(query[16:], context(HISTORY[-3:]), rtol=1e-5)
    for place in range(-3, 0):  # each of them counts
        other = HISTORY.copy()
        other[place] = 50
        assert not np.allclose(query[16:], context(other[-3:]), rtol=1e-3)


@pytest.mark.parametrize("make", [vr.FPMC, vr.MARank])
def test_who_comes_with_a_history_in_another_order_gets_other_items(planted, make):
    train, _ = planted
    model = trained(make(dim=16), train)
    items = train.item_ids[train.items[: train.indptr[1]]]
    assert model.fold_in(items, n=5)[0].tolist() != model.fold_in(items[::-1], n=5)[0].tolist()
