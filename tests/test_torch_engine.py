"""The torch engine computes what the compiled one does, does it again the same way, and resumes exactly."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from inspect import signature

import numpy as np
import pytest
import torch

import vitalrank as vr
from vitalrank.checkpoint import read_folder, write_folder
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError, TrainingError

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=40, items=30, interactions=400, seed=0)


class Lookup(torch.nn.Embedding):
    """A table with given values."""

    def __init__(self, values):
        super().__init__(*values.shape)
        self.weight.data.copy_(torch.from_numpy(values))


def initial_mf(log, dim, **options):
    """Tables that ``vr.MF`` begins with."""
    config = TrainConfig(**options)
    engine = vr.MF(dim=dim).build(log, vr.Uniform().bind(log, seed=config.seed), config)
    return {name: np.array(table) for name, table in engine.values().items()}


# ------------------------------------------------------------------------------------------ against the other engine

SAME = [
    (vr.Uniform(), {"optimizer": "sgd", "lr": 0.1}),
    (vr.Uniform(), {"optimizer": "adagrad", "lr": 0.1, "negatives": 3}),
    (vr.Uniform(), {"optimizer": "adam", "reg": 0.0, "schedule": "cosine"}),
    (vr.Popularity(), {"loss": "hinge", "margin": 0.5, "optimizer": "sgd", "lr": 0.05}),
    (vr.DNS(candidates=3), {"loss": "cross_entropy", "negatives": 2}),
    (vr.Popularity(beta=1.0), {"loss": "softmax", "negatives": 5}),
    (vr.VINS(), {"loss": "softmax", "negatives": 3}),
    (vr.VINS(), {}),
    (vr.LFMW(), {"optimizer": "adagrad", "lr": 0.1}),
    (vr.SA(candidates=4), {}),
    (vr.PRIS(candidates=4, clusters=0, detach=True), {}),
    (vr.PRIS(candidates=4, clusters=0, detach=False), {}),
]


@pytest.mark.parametrize(("sampler", "options"), SAME, ids=repr)
def test_matrix_factorization_in_torch_equals_the_compiled_one(log, sampler, options):
    options = {"epochs": 3, "batch": 64, "lr": 0.02, "reg": 0.01, "seed": 5, "threads": 1, **options}
    tables = initial_mf(log, 6, **options)
    compiled = vr.MF(dim=6).fit(log, sampler, **options)
    own = vr.TorchRecommender(Lookup(tables["users"]), Lookup(tables["items"])).fit(log, sampler, **options)
    assert not np.allclose(own.item_table, tables["items"], atol=1e-3)
    np.testing.assert_allclose(own.item_table, compiled.item_table, rtol=2e-3, atol=2e-5)
    users = np.arange(log.n_users)
    np.testing.assert_allclose(own.queries(users), compiled.queries(users), rtol=2e-3, atol=2e-5)
    for mine, theirs in zip(own.history, compiled.history, strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine.keys() - {"seconds"}:
            assert mine[name] == (theirs[name] if theirs[name] is None else pytest.approx(theirs[name], rel=1e-3))


def test_users_who_have_seen_everything_are_skipped_and_counted():
    log = vr.Interactions.from_arrays([1, 1, 1, 2], [7, 8, 9, 7])
    tables = initial_mf(log, 4)
    own = vr.TorchRecommender(Lookup(tables["users"]), Lookup(tables["items"])).fit(log, vr.Uniform(), epochs=2)
    assert [record["skipped"] for record in own.history] == [3, 3]
    np.testing.assert_array_equal(own.queries(np.array([0]))[0], tables["users"][0])
    assert not np.array_equal(own.queries(np.array([1]))[0], tables["users"][1])


# ------------------------------------------------------------------------------------------ again, and after a stop

MODELS = {
    "FPMC": lambda: vr.FPMC(dim=4, length=2),
    "MARank": lambda: vr.MARank(dim=4, length=3),
    "CML": lambda: vr.CML(dim=4, covariance=0.1),
    "SASRec": lambda: vr.SASRec(dim=4, length=5),
    "LightGCN": lambda: vr.LightGCN(dim=4, layers=2),
}
SAMPLERS = {"FPMC": vr.PRIS(candidates=3, clusters=5), "CML": None}
SAMPLERS |= dict.fromkeys(("MARank", "SASRec", "LightGCN"), vr.VINS())


def fit(name, log, **options):
    return MODELS[name]().fit(log, SAMPLERS[name], **{"epochs": 4, "batch": 64, "lr": 0.01, "threads": 1, **options})


def bits(model):
    return {name: array.tobytes() for name, array in model.tensors().items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_gives_the_same_bits_and_leaves_the_callers_random_numbers_alone(name, log):
    torch.manual_seed(3)
    first = fit(name, log, seed=1)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert bits(fit(name, log, seed=1)) == bits(first)
    assert bits(fit(name, log, seed=2)) != bits(first)


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "sgd"])
@pytest.mark.parametrize("name", MODELS)
def test_a_stopped_run_resumes_with_the_same_bits(name, log, tmp_path, optimizer):
    train, valid = log.split_last(0.2)
    options = {"valid": valid, "optimizer": optimizer, "schedule": "linear", "epochs": 4}
    whole = fit(name, train, checkpoint=tmp_path / "whole", **options)
    stop = [lambda record, model: record["epoch"] == 2]
    fit(name, train, checkpoint=tmp_path / "parts", callbacks=stop, **options)
    parts = fit(name, train, checkpoint=tmp_path / "parts", resume=True, **options)
    assert bits(parts) == bits(whole)
    names = [path / "tensors.safetensors" for path in (tmp_path / "parts", tmp_path / "whole")]
    assert names[0].read_bytes() == names[1].read_bytes()
    assert [record["epoch"] for record in parts.history] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", MODELS)
def test_the_best_epoch_is_served(name, log):
    train, valid = log.split_last(0.2)
    model = fit(name, train, valid=valid, epochs=6, patience=2)
    best = max(record["ndcg@10"] for record in model.history)
    assert model.history[model.history.best_epoch - 1]["ndcg@10"] == best
    assert vr.evaluate(model, valid, at=10)["ndcg@10"] == pytest.approx(best)


def test_a_run_folder_is_a_model(log, tmp_path):
    model = fit("MARank", log, checkpoint=tmp_path / "run")
    users = np.arange(log.n_users)
    np.testing.assert_array_equal(vr.load(tmp_path / "run").queries(users), model.queries(users))


# ------------------------------------------------------------------------------------------ the network's own part


def test_the_network_moves_by_the_clipped_mean_and_embeddings_by_the_sum(log):
    def moved(clip):
        torch.manual_seed(0)
        encoder = torch.nn.Sequential(torch.nn.Embedding(log.n_users, 4), torch.nn.Linear(4, 4, bias=False))
        model = vr.TorchRecommender(encoder, torch.nn.Embedding(log.n_items, 4), clip=clip)
        before = {name: value.clone() for name, value in model.network.state_dict().items()}
        model.fit(log, vr.Uniform(), epochs=1, batch=len(log), optimizer="sgd", lr=1.0, reg=0.0)
        return {name: model.network.state_dict()[name] - value for name, value in before.items()}

    free, clipped = moved(None), moved(1e-3)
    layer = free["encoder.1.weight"]
    torch.testing.assert_close(clipped["encoder.1.weight"], layer * 1e-3 / layer.norm())
    torch.testing.assert_close(clipped["items.weight"], free["items.weight"])
    # q = W e, so sum over users of e . dL/de equals the inner product of W and dL/dW: the sum is B times the mean.
    torch.manual_seed(0)
    rows = torch.nn.Embedding(log.n_users, 4).weight.detach()
    weight = torch.nn.Linear(4, 4, bias=False).weight.detach()
    by_rows = (rows * free["encoder.0.weight"]).sum()
    torch.testing.assert_close(by_rows, (weight * layer).sum() * len(log), rtol=1e-3, atol=1e-4)


# ------------------------------------------------------------------------------------------ wrong arguments


def test_unknown_options_and_devices_are_refused(log):
    with pytest.raises(SettingError, match="fit has no option 'learning_rate'; it has epochs, lr"):
        vr.FPMC().fit(log, learning_rate=0.1)
    with pytest.raises(SettingError, match="unknown device 'tpu'"):
        vr.FPMC().fit(log, device="tpu")


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: vr.FPMC(dim=0), "dim is 0"),
        (lambda: vr.FPMC(length=1.5), r"length is 1\.5"),
        (lambda: vr.MARank(dropout=1.0), r"dropout is 1\.0"),
        (lambda: vr.MARank(orders=-1), "orders is -1"),
        (lambda: vr.CML(covariance=-1.0), r"covariance is -1\.0"),
    ],
)
def test_settings_are_checked(make, word):
    with pytest.raises(SettingError, match=word):
        make()


def test_another_network_is_refused_on_load(tmp_path, log):
    fit("FPMC", log, epochs=1).save(tmp_path / "a")
    saved = read_folder(tmp_path / "a")
    saved.meta["settings"]["dim"] = 5
    write_folder(tmp_path / "a", saved.meta, saved.tensors, saved.ids)
    with pytest.raises(vr.StorageError, match="does not hold a whole FPMC"):
        vr.load(tmp_path / "a")


def test_torch_is_imported_for_its_own_models_alone():
    code = """
import sys
import vitalrank as vr

log = vr.datasets.synthetic(users=20, items=15, interactions=100, seed=0)
vr.evaluate(vr.MF(dim=4).fit(log, vr.SA(), epochs=1), log.split_last(0.2)[1])
vr.models.model_names()
assert "torch" not in sys.modules
vr.FPMC
assert "torch" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_fit_takes_every_option_of_the_settings_and_the_trainer():
    from vitalrank.models.trainable import FitOptions

    trainer = {name: one.default for name, one in signature(vr.Trainer).parameters.items() if name != "config"}
    known = {field.name: field.default for field in fields(TrainConfig)} | trainer
    assert set(FitOptions.__annotations__) == set(known)
    for model in (vr.MF, vr.FPMC, vr.CML, vr.TorchRecommender):
        written_out = signature(model.fit).parameters
        assert {name: written_out[name].default for name in known} == {**known, **model.defaults}
        assert set(written_out) - set(known) == {"self", "train", "sampler", "valid", "start"}


@pytest.mark.parametrize("kind", ["MF", "FPMC"])
def test_an_option_that_fit_does_not_have_is_named(kind, log):
    with pytest.raises(SettingError, match="fit has no option 'foo'; it has epochs, lr"):
        getattr(vr, kind)(dim=2).fit(log, foo=1)


# ------------------------------------------------------------------------------------------ precision


def test_bfloat16_computes_layers_in_it_and_keeps_the_values_in_float32(log):
    seen = []

    class Watched(torch.nn.Linear):
        def forward(self, x):
            out = super().forward(x)
            seen.append(out.dtype)
            return out

    torch.manual_seed(0)
    encoder = torch.nn.Sequential(torch.nn.Embedding(log.n_users, 8), Watched(8, 8))
    model = vr.TorchRecommender(encoder, torch.nn.Embedding(log.n_items, 8))
    seen.clear()
    model.fit(log, vr.VINS(), epochs=2, precision="bfloat16", threads=1)
    assert set(seen) == {torch.bfloat16, torch.float32}  # in training, and when the shapes are checked
    assert all(parameter.dtype == torch.float32 for parameter in model.network.parameters())
    assert model.history[-1]["loss"] < model.history[0]["loss"]
    assert model.queries(np.arange(3)).dtype == np.float32


@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains_in_bfloat16(name, log):
    plain, mixed = fit(name, log), fit(name, log, precision="bfloat16")
    assert mixed.history[-1]["loss"] == pytest.approx(plain.history[-1]["loss"], rel=0.05)


def test_precisions_that_cannot_be_had_are_refused(log):
    with pytest.raises(SettingError, match="unknown precision 'float16'; choose one of float32, bfloat16"):
        vr.FPMC().fit(log, precision="float16")
    with pytest.raises(SettingError, match="precision is 'bfloat16'; matrix factorization trains in float32"):
        vr.MF().fit(log, precision="bfloat16")


def test_auto_is_written_down_as_the_device_it_stood_for(log, tmp_path, monkeypatch):
    monkeypatch.setattr("vitalrank._util.devices._gpus", lambda: 0)
    fit("FPMC", log, epochs=1, device="auto", checkpoint=tmp_path / "run")
    assert '"device": "cpu"' in (tmp_path / "run" / "model.json").read_text()


def test_models_built_side_by_side_begin_with_the_same_values(log):
    sampler, config = vr.Uniform().bind(log, seed=0), TrainConfig(seed=0)

    def build(_):
        return vr.MARank(dim=32).build(log, sampler, config).values()

    alone = build(0)
    with ThreadPoolExecutor(8) as pool:
        for values in pool.map(build, range(16)):
            for name, array in alone.items():
                np.testing.assert_array_equal(values[name], array)


@pytest.mark.parametrize("name", MODELS)
def test_models_trained_side_by_side_end_with_the_bits_of_one_alone(name, log):
    alone = bits(fit(name, log, seed=0))
    with ThreadPoolExecutor(4) as pool:
        trained = pool.map(lambda seed: bits(fit(name, log, seed=seed)), [0, 1, 0, 2, 0, 3])
        assert [found == alone for found in trained] == [True, False, True, False, True, False]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_the_same_whatever_torch_is_set_to(name, log):
    usual = bits(fit(name, log, seed=0))
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            assert bits(fit(name, log, seed=0)) == usual
    finally:
        torch.set_default_dtype(torch.float32)


# ------------------------------------------------------------------------------------------ threads and memory


@pytest.mark.parametrize("name", ["FPMC", "CML"])
def test_a_model_without_matrix_products_has_the_same_bits_for_any_number_of_threads(name, tmp_path):
    log = vr.datasets.synthetic(users=200, items=150, interactions=3000, seed=0)
    make = {"FPMC": lambda: vr.FPMC(dim=64, length=2), "CML": lambda: vr.CML(dim=64)}[name]
    options = {"batch": 2048, "seed": 0, "progress": False}  # large enough for torch to share the work
    trained = [make().fit(log, epochs=2, threads=threads, **options) for threads in (1, 2, 4)]
    assert bits(trained[0]) == bits(trained[1]) == bits(trained[2])
    make().fit(log, epochs=1, threads=1, checkpoint=tmp_path / "run", **options)
    resumed = make().fit(log, epochs=2, threads=2, checkpoint=tmp_path / "run", resume=True, **options)
    assert bits(resumed) == bits(trained[0])


def test_a_resume_with_another_number_of_threads_is_refused_where_bits_depend_on_it(log, tmp_path):
    whole = fit("MARank", log, epochs=2)
    fit("MARank", log, epochs=1, checkpoint=tmp_path / "run")
    with pytest.raises(
        SettingError, match=r"run: was trained with threads=1, not 2; nothing was changed\. Give the same"
    ):
        fit("MARank", log, epochs=2, threads=2, checkpoint=tmp_path / "run", resume=True)
    assert bits(fit("MARank", log, epochs=2, checkpoint=tmp_path / "run", resume=True)) == bits(whole)


def test_too_little_memory_is_one_sentence():
    log = vr.Interactions.from_arrays(np.arange(100_000), np.arange(100_000) % 9)
    with pytest.raises(TrainingError, match=r"^cpu ran out of memory; use a smaller dim\.$"):
        vr.FPMC(dim=2**31 - 1).fit(log)  # more than any address space holds


def test_too_little_memory_in_a_step_is_one_sentence(log):
    class Greedy(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) + (torch.empty(1 << 50).sum() if self.training else 0.0)

    encoder = torch.nn.Sequential(torch.nn.Embedding(log.n_users, 4), Greedy(4, 4))
    with pytest.raises(TrainingError, match=r"^cpu ran out of memory; use a smaller batch or dim\.$"):
        vr.TorchRecommender(encoder, torch.nn.Embedding(log.n_items, 4)).fit(log, vr.Uniform(), epochs=1)
