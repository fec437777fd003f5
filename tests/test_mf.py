"""Matrix factorization: one step against autograd, and what fit promises."""

import weakref
from dataclasses import dataclass

import numpy as np
import pytest

import vitalrank as vr
from vitalrank import losses
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError, TrainingError
from vitalrank.kernels.cpu.training.permutation import epoch_permutation, row_at
from vitalrank.samplers import Draw

LOG = vr.Interactions.from_arrays([0, 0, 0, 1, 1, 2, 2, 2, 3], [0, 1, 2, 0, 5, 1, 3, 4, 2])


@dataclass(frozen=True)
class Scripted:
    """Negatives and weights from a plain generator; some missing on request. Keeps what it was asked and gave."""

    k: int = 1
    missing: float = 0.0
    differentiable_weights: bool = False

    def bind(self, train, seed=0):
        return ScriptedDraws(self, train, np.random.default_rng(seed))


class ScriptedDraws:
    def __init__(self, law, train, rng):
        self.settings, self.train, self.rng = law, train, rng
        self.differentiable_weights = law.differentiable_weights
        self.batches = []

    def reset(self):
        pass

    def __call__(self, queries, item_table, users, positives, *, step, k=1):
        ids = self.rng.integers(0, self.train.n_items, (len(users), k))
        ids[self.rng.random(len(users)) < self.settings.missing] = -1
        weights = self.rng.uniform(0.2, 2.0, ids.shape).astype(np.float32)
        if self.differentiable_weights:
            scores = np.einsum("bd,bkd->bk", queries, item_table[ids])
            weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        weights[ids < 0] = 0.0
        self.batches.append((users.copy(), positives.copy(), ids.copy(), weights.copy()))
        tries = np.full(len(users), 2, np.int32)
        return Draw(ids, weights, tries)


def trained(config, sampler, dim=5, bias=False, log=LOG, epochs=3):
    """The engine after some epochs, what it began with, and the draws it was given."""
    model = vr.MF(dim=dim, bias=bias)
    bound = sampler.bind(log, seed=1)
    engine = model.build(log, bound, config)
    rng = np.random.default_rng(2)
    begin = {name: rng.normal(0, 0.7, array.shape).astype(np.float32) for name, array in engine.values().items()}
    if bias:
        begin["users"][:, -1] = 1.0
    engine.load(begin)
    totals = [engine.run_epoch(epoch, lambda share: config.lr, lambda totals: None) for epoch in range(1, epochs + 1)]
    return engine, begin, bound.batches, totals


def by_autograd(config, begin, batches, frozen=0, softmax=False):
    """The same training with torch: sparse gradients, so that untouched rows stay."""
    torch = pytest.importorskip("torch")
    makers = {
        "adam": lambda p: torch.optim.SparseAdam(p, lr=config.lr),
        "adagrad": lambda p: torch.optim.Adagrad(p, lr=config.lr),
        "sgd": lambda p: torch.optim.SGD(p, lr=config.lr),
    }
    users, items = (
        torch.nn.Embedding.from_pretrained(torch.tensor(begin[name]), freeze=False, sparse=True)
        for name in ("users", "items")
    )
    optimizer = makers[config.optimizer]([users.weight, items.weight])
    loss_of = losses.LOSSES[config.loss].function
    weight = losses.gbce_weight(config.calibration, config.negatives, len(begin["items"]))
    extra = {"hinge": {"margin": config.margin}, "gbce": {"positive_weight": weight}}.get(config.loss, {})
    seen = []
    for u, i, j, w in batches:
        drawn = (j >= 0).any(1)
        u, i, j, w = (torch.as_tensor(x[drawn]) for x in (u, i, j, w))
        p, q, n = users(u), items(i), items(j)
        pos, neg = (p * q).sum(-1), (p[:, None] * n).sum(-1)
        weights = torch.softmax(neg, 1) if softmax else w
        loss = loss_of(pos, neg, weights, **extra) * len(u)
        seen.append(float(loss.detach()))
        l2 = sum((x**2).sum() for x in (p[:, : p.shape[1] - frozen], q, n)) / 2
        optimizer.zero_grad()
        (loss + config.reg * l2).backward()
        optimizer.step()
        if frozen:
            with torch.no_grad():
                users.weight[:, -frozen:] = 1.0
    return {"users": users.weight.detach().numpy(), "items": items.weight.detach().numpy()}, seen


def assert_same(engine, expected):
    for name, array in engine.values().items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "sgd"])
@pytest.mark.parametrize("loss", losses.LOSSES)
@pytest.mark.parametrize("k", [1, 3])
def test_training_is_what_autograd_says(optimizer, loss, k):
    config = TrainConfig(lr=0.05, reg=0.1, loss=loss, margin=0.8, optimizer=optimizer, batch=4, negatives=k)
    engine, begin, batches, totals = trained(config, Scripted(k))
    expected, seen = by_autograd(config, begin, batches)
    assert_same(engine, expected)
    assert sum(t.loss for t in totals) == pytest.approx(sum(seen), rel=1e-4)


def test_gradients_flow_through_weights_on_request():
    config = TrainConfig(lr=0.05, reg=0.0, optimizer="sgd", batch=4, negatives=3)
    engine, begin, batches, _ = trained(config, Scripted(3, differentiable_weights=True))
    assert_same(engine, by_autograd(config, begin, batches, softmax=True)[0])


def test_the_bias_moves_and_the_constant_stays():
    config = TrainConfig(lr=0.05, reg=0.1, batch=4)
    engine, begin, batches, _ = trained(config, Scripted(), bias=True)
    assert_same(engine, by_autograd(config, begin, batches, frozen=1)[0])
    assert (engine.users[:, -1] == 1.0).all()


def test_positives_without_a_negative_are_skipped_and_counted():
    config = TrainConfig(lr=0.05, reg=0.1, batch=4)
    engine, begin, batches, totals = trained(config, Scripted(missing=0.5))
    assert_same(engine, by_autograd(config, begin, batches)[0])
    assert sum(t.skipped for t in totals) == sum((ids < 0).sum() for _, _, ids, _ in batches) > 0


def test_an_epoch_visits_each_positive_once_in_its_own_order():
    config = TrainConfig(batch=4)
    batches = trained(config, Scripted())[2]
    pairs = [(u, i) for users, items, _, _ in batches for u, i in zip(users.tolist(), items.tolist(), strict=True)]
    epochs = [pairs[e * len(LOG) : (e + 1) * len(LOG)] for e in range(3)]
    everything = sorted(zip(LOG.users.tolist(), LOG.items.tolist(), strict=True))
    assert all(sorted(epoch) == everything for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 1009])
def test_an_order_is_a_permutation(size):
    order = epoch_permutation(size, seed=3, epoch=5)
    assert sorted(row_at(order, position) for position in range(size)) == list(range(size))


def test_all_orders_of_three_are_about_equally_likely():
    counts: dict[tuple[int, ...], int] = {}
    for epoch in range(1200):
        order = epoch_permutation(3, seed=0, epoch=epoch)
        key = tuple(int(row_at(order, position)) for position in range(3))
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 6
    assert min(counts.values()) > 140  # 200 expected, deviation 13


def test_initial_values_are_normal_and_depend_on_the_seed_alone():
    def initial(seed, users):
        log = vr.Interactions.from_arrays(np.arange(users), np.arange(users) % 500)
        return vr.MF(dim=7).build(log, None, TrainConfig(seed=seed)).values()

    first = initial(0, 600)
    assert not np.array_equal(first["users"], initial(1, 600)["users"])
    np.testing.assert_array_equal(first["users"], initial(0, 900)["users"][:600])
    assert not np.array_equal(first["users"][:500], first["items"])
    for table in first.values():
        assert abs(table.mean()) < 0.001
        assert table.std() == pytest.approx(0.01, rel=0.05)
        assert (abs(table) > 0.02).mean() == pytest.approx(0.0455, abs=0.02)


def test_vanished_counts_positives_that_no_longer_pull():
    config = TrainConfig(lr=1e-6, reg=0.0, batch=4, optimizer="sgd")
    engine, _, batches, _ = trained(config, Scripted())
    users, items = np.ones((4, 5), np.float32), np.zeros((6, 5), np.float32)
    items[1] = 2.0  # leads by 10: sigma(-10) < 0.01
    engine.load({"users": users, "items": items})
    before = len(batches)
    totals = engine.run_epoch(1, lambda share: 1e-6, lambda totals: None)
    pairs = [(i, j) for _, pos, neg, _ in batches[before:] for i, j in zip(pos, neg[:, 0], strict=True)]
    assert totals.vanished == sum(i == 1 and j != 1 for i, j in pairs) > 0


def small_log():
    return vr.datasets.synthetic(users=120, items=80, interactions=2500, seed=0)


def two_tastes():
    """Users of either taste touch items of their own half alone; popularity cannot tell them apart."""
    rng = np.random.default_rng(0)
    pairs = [(user, item * 2 + user % 2) for user in range(80) for item in rng.permutation(30)[:12]]
    return vr.Interactions.from_arrays(*np.array(pairs).T)


@pytest.mark.parametrize(
    "sampler",
    [
        vr.Uniform(),
        vr.Popularity(),
        vr.DNS(candidates=2),
        vr.LFMW(),
        vr.VINS(),
        vr.SA(candidates=8),
        vr.PRIS(clusters=0),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_every_sampler_teaches_the_model_the_tastes(sampler):
    train, test = two_tastes().split_last(0.2)
    model = vr.MF(dim=8).fit(train, sampler, epochs=15, lr=0.02, reg=0.02, batch=128)
    floor = vr.evaluate(vr.MostPopular().fit(train), test, at=10)["ndcg@10"]
    assert vr.evaluate(model, test, at=10)["ndcg@10"] > 1.3 * floor


def test_vins_is_the_sampler_of_a_user_who_names_none():
    train = small_log()
    one, other = (vr.MF(dim=4).fit(train, sampler, epochs=2) for sampler in (None, vr.VINS()))
    np.testing.assert_array_equal(one.item_table, other.item_table)


def test_the_state_of_training_is_gone_before_the_vectors_are_copied():
    class Watched(vr.MF):
        def build(self, *given):
            engine = super().build(*given)
            self.engine = weakref.ref(engine)
            return engine

        def release_training_state(self):
            self.was_gone = self.engine() is None
            super().release_training_state()

    assert Watched(dim=2).fit(small_log(), vr.VINS(), epochs=2).was_gone


def test_a_user_who_has_seen_everything_is_skipped():
    users = np.repeat([0, 1, 2], [4, 2, 1])
    log = vr.Interactions.from_arrays(users, [0, 1, 2, 3, 0, 1, 3])
    model = vr.MF(dim=3).fit(log, vr.Uniform(), epochs=2)
    assert [record["skipped"] for record in model.history] == [4, 4]


def test_saved_and_loaded_it_is_the_same(tmp_path):
    model = vr.MF(dim=4, bias=True).fit(small_log(), vr.Uniform(), epochs=2)
    model.save(tmp_path / "a")
    loaded = vr.load(tmp_path / "a")
    assert repr(loaded) == "MF(dim=4, bias=True)"
    assert loaded.history.records == model.history.records
    users = np.arange(5)
    np.testing.assert_array_equal(loaded.scores(users, 0, 80), model.scores(users, 0, 80))


def test_a_bias_alone_learns_popularity():
    train = small_log()
    model = vr.MF(dim=1, bias=True).fit(train, vr.Uniform(), epochs=30, lr=0.05, reg=0.0)
    bias = model.item_table[:, -1]
    assert np.corrcoef(bias, np.log(np.maximum(train.item_degree, 1)))[0, 1] > 0.8


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dim": 0}, "dim is 0"),
        ({"dim": 2.5}, "dim is 2.5"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(SettingError, match=words):
        vr.MF(**settings)


def test_unknown_devices_and_options_are_errors():
    with pytest.raises(SettingError, match="unknown device 'tpu'"):
        vr.MF(dim=2).fit(LOG, vr.Uniform(), device="tpu")
    with pytest.raises(SettingError, match="learning_rate"):
        vr.MF(dim=2).fit(LOG, vr.Uniform(), learning_rate=1.0)


def test_a_wide_hinge_is_no_divergence():
    log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    history = vr.MF(dim=4).fit(log, vr.Uniform(), loss="hinge", margin=20.0, epochs=2).history
    assert 0 < history[-1]["loss"] <= 20.0


def test_seeds_of_any_size_in_one_process():
    tables = [vr.MF(dim=4).fit(LOG, vr.Uniform(), epochs=1, seed=seed).item_table for seed in (0, 2**63, 2**64 - 1)]
    assert len({table.tobytes() for table in tables}) == 3


def test_tries_are_those_of_all_negatives_of_a_positive():
    """And a positive counts as unviolated if one of its negatives is."""
    assert vr.MF(dim=4).fit(LOG, vr.Uniform(), epochs=1, negatives=3).history[0]["tries"] == 3.0
    shares = [vr.MF(dim=4).fit(LOG, vr.VINS(kappa=1, margin=0), epochs=1, negatives=k).history[-1] for k in (1, 4)]
    assert shares[0]["unviolated"] < shares[1]["unviolated"] < 1.0


def test_tables_that_do_not_fit_into_memory_are_an_error_in_one_sentence(monkeypatch):
    def exhausted(shape, kind):
        raise MemoryError

    monkeypatch.setattr("vitalrank.engines.mf.large_zeros", exhausted)
    with pytest.raises(TrainingError, match=r"^cpu ran out of memory; use a smaller dim, .*\.$"):
        vr.MF(dim=4).fit(LOG, vr.Uniform(), epochs=1)
