"""Torch models on a GPU: they learn what they learn on the CPU, repeat themselves, and are saved without the device."""

import numpy as np
import pytest

import vitalrank as vr
from vitalrank.training.trainer import default_sampler

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@pytest.fixture(scope="module")
def parts():
    return vr.datasets.synthetic(users=300, items=200, interactions=9000, seed=0, sequence=0.5).split_last(0.2)


def own(log, length=0):
    torch.manual_seed(0)
    encoder = torch.nn.Sequential(
        torch.nn.Embedding(log.n_users, 16), torch.nn.Linear(16, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 16)
    )
    return vr.TorchRecommender(encoder, torch.nn.Embedding(log.n_items, 16))


class Scorer(torch.nn.Module):
    """A small network over pairs."""

    def __init__(self, log):
        super().__init__()
        torch.manual_seed(0)
        self.users, self.items = torch.nn.Embedding(log.n_users, 8), torch.nn.Embedding(log.n_items, 8)
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def forward(self, users, ids):
        """Scores of ``ids`` for ``users``."""
        user = self.users(users)[:, None].expand(-1, ids.shape[1], -1)
        return self.layers(torch.cat([user, self.items(ids)], -1))[..., 0]


MODELS = {
    "FPMC": (lambda log: vr.FPMC(dim=16, length=2), vr.VINS()),
    "MARank": (lambda log: vr.MARank(dim=16), vr.VINS()),
    "SASRec": (lambda log: vr.SASRec(dim=16, length=20), vr.VINS()),
    "SASRec, many negatives": (lambda log: vr.SASRec(dim=16, length=20), vr.Uniform()),
    "LightGCN": (lambda log: vr.LightGCN(dim=16), vr.VINS()),
    "CML": (lambda log: vr.CML(dim=16, covariance=0.1), None),
    "IRGAN": (lambda log: vr.IRGAN(dim=16, warm=0, draws=4), None),
    "own": (own, vr.DNS()),
    "scorer": (lambda log: vr.TorchRecommender(score=Scorer(log)), vr.VINS()),
}
OPTIONS = {"epochs": 6, "lr": 0.01, "reg": 1e-3, "batch": 512, "progress": False}
OWN_OPTIONS = {"SASRec, many negatives": {"negatives": 16, "loss": "gbce"}}


def fit(name, train, **options):
    make, sampler = MODELS[name]
    return make(train).fit(train, sampler, **{**OPTIONS, "device": "cuda", **OWN_OPTIONS.get(name, {}), **options})


def bits(model):
    return {name: array.tobytes() for name, array in model.tensors().items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_gives_the_same_bits(name, parts):
    train, _ = parts
    torch.manual_seed(3)
    first = fit(name, train, seed=1)
    torch.rand(1, device="cuda")
    assert bits(fit(name, train, seed=1)) == bits(first)
    assert next(first.network.parameters()).device.type == "cuda"


@pytest.mark.parametrize("name", MODELS)
def test_it_learns_what_it_learns_on_the_cpu(name, parts):
    train, test = parts
    on_gpu, on_cpu = fit(name, train), fit(name, train, device="cpu")
    for mine, theirs in zip(on_gpu.history, on_cpu.history, strict=True):
        assert mine.keys() == theirs.keys()
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=0.1)
        assert mine["skipped"] == theirs["skipped"]
    found = vr.evaluate(on_gpu, test, at=10)["ndcg@10"]
    assert found == pytest.approx(vr.evaluate(on_cpu, test, at=10)["ndcg@10"], abs=0.05)


@pytest.mark.parametrize("name", ["FPMC", "IRGAN"])  # one that is captured, one that is not
def test_draws_are_counted(name, parts):
    train, _ = parts
    make, sampler = MODELS[name]
    model = make(train)
    config = vr.TrainConfig(**{**model.defaults, "epochs": 1, "batch": 512, "device": "cuda:0"})
    bound = (sampler or default_sampler(model, config)).bind(train, count=True)
    model.build(train, bound, config).run_epoch(1, lambda share: 0.01, lambda totals: None)
    assert bound.counts.rows == len(train)
    assert bound.counts.positive.tolist() == train.item_degree.tolist()


@pytest.mark.parametrize("name", ["FPMC", "MARank", "SASRec", "LightGCN", "CML", "IRGAN"])
def test_a_saved_model_is_loaded_on_the_cpu(name, parts, tmp_path):
    train, test = parts
    model = fit(name, train, epochs=2)
    model.save(tmp_path / "a")
    loaded = vr.load(tmp_path / "a")
    assert next(loaded.network.parameters()).device.type == "cpu"
    users = np.arange(train.n_users)
    np.testing.assert_allclose(loaded.queries(users), model.queries(users), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(loaded.item_table, model.item_table)
    assert vr.evaluate(loaded, test, at=10)["ndcg@10"] == pytest.approx(
        vr.evaluate(model, test, at=10)["ndcg@10"], abs=1e-3
    )
    assert loaded.fold_in(train.item_ids[:3], n=5)[0].tolist() == model.fold_in(train.item_ids[:3], n=5)[0].tolist()


@pytest.mark.parametrize("name", ["FPMC", "MARank", "SASRec", "LightGCN", "CML"])
def test_a_stopped_run_resumes_with_the_same_bits(name, parts, tmp_path):
    train, valid = parts
    options = {"valid": valid, "epochs": 4}
    whole = fit(name, train, checkpoint=tmp_path / "whole", **options)
    stop = [lambda record, model: record["epoch"] == 2]
    fit(name, train, checkpoint=tmp_path / "parts", callbacks=stop, **options)
    assert bits(fit(name, train, checkpoint=tmp_path / "parts", resume=True, **options)) == bits(whole)


@pytest.mark.parametrize("name", ["MARank", "IRGAN", "own"])
def test_bfloat16_learns_nearly_the_same(name, parts):
    train, test = parts
    plain, mixed = fit(name, train), fit(name, train, precision="bfloat16")
    assert bits(plain) != bits(mixed)
    assert mixed.history[-1]["loss"] == pytest.approx(plain.history[-1]["loss"], rel=0.1)
    found = [vr.evaluate(model, test, at=10)["ndcg@10"] for model in (plain, mixed)]
    assert found[1] == pytest.approx(found[0], abs=0.05)


def test_a_table_that_does_not_fit_is_refused_with_its_size(parts):
    train, _ = parts
    width = 4 * torch.cuda.mem_get_info()[1] // (3 * 4 * 2 * train.n_users)
    with pytest.raises(vr.TrainingError, match=r"cuda:0 is too small: .* GiB are needed"):
        TooLarge(dim=width).fit(train, vr.Uniform(), epochs=1, device="cuda")


class TooLarge(vr.FPMC):
    """Tables that take no memory until they are moved to the device."""

    def new_network(self, train):
        with torch.device("meta"):
            return super().new_network(train)
