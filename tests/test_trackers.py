"""The callbacks for MLflow and Weights & Biases: what they hand over, to stand-ins and to the packages themselves."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

import vitalrank as vr
from vitalrank.errors import SettingError

TRAIN, VALID = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0).split_last(0.2)


class FakeMLflow:
    """Keeps what it is told, as the functions of the module would."""

    def __init__(self):
        self.run, self.params, self.metrics, self.started = None, {}, [], []

    def active_run(self):
        return self.run

    def start_run(self, **options):
        self.run = object()
        self.started.append(options)

    def end_run(self):
        self.run = None

    def log_params(self, params):
        assert self.run is not None
        self.params |= params

    def log_metrics(self, metrics, step=None):
        assert self.run is not None
        self.metrics.append((step, metrics))


class FakeRun:
    def __init__(self, owner):
        self.config, self.summary, self.logged, self._owner = {}, {}, [], owner

    def log(self, values, step, commit):
        self.logged.append((step, values))

    def finish(self):
        self._owner.run = None


@pytest.fixture
def mlflow(monkeypatch):
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    return fake


@pytest.fixture
def wandb(monkeypatch):
    fake = SimpleNamespace(run=None, started=[])

    def init(**options):
        fake.started.append(options)
        fake.run = FakeRun(fake)
        return fake.run

    fake.init = init
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def fit(tracker):
    options = {"epochs": 3, "valid_every": 2, "seed": 0, "progress": False}
    return vr.MF(dim=8).fit(TRAIN, vr.DNS(), valid=VALID, callbacks=[tracker], **options)


def check(logged, model, translate=str):
    """What was logged is the history, epoch by epoch."""
    assert [step for step, _ in logged] == [1, 2, 3]
    for (_, values), record in zip(logged, model.history, strict=True):
        wanted = {name: value for name, value in record.items() if name != "epoch" and value is not None}
        assert values == {translate(name): value for name, value in wanted.items()}


def test_mlflow_gets_settings_and_epochs(mlflow):
    with vr.training.MLflow(run_name="a") as tracker:
        model = fit(tracker)
        assert mlflow.run is not None
    assert mlflow.run is None
    assert mlflow.started == [{"run_name": "a"}]
    check(mlflow.metrics[:-1], model, lambda name: name.replace("@", "_at_"))
    assert mlflow.metrics[-1] == (None, {"best_epoch": float(model.history.best_epoch)})
    assert mlflow.params["model"] == "MF(dim=8, bias=False)"
    assert mlflow.params["sampler"] == repr(vr.DNS())
    assert mlflow.params["lr"] == 0.003
    assert mlflow.params["train.rows"] == len(TRAIN)


def test_mlflow_leaves_a_run_open_that_was_active(mlflow):
    mlflow.start_run()
    with vr.training.MLflow() as tracker:
        fit(tracker)
    assert mlflow.run is not None
    with pytest.raises(SettingError, match="run_name comes too late"):
        vr.training.MLflow(run_name="b")


def test_wandb_gets_settings_and_epochs(wandb):
    with vr.training.WandB(project="p") as tracker:
        model = fit(tracker)
        run = wandb.run
    assert wandb.run is None
    assert wandb.started == [{"project": "p"}]
    check(run.logged, model)
    assert run.summary == {"best_epoch": model.history.best_epoch}
    assert run.config["sampler"] == repr(vr.DNS())


def test_wandb_leaves_a_run_open_that_was_active(wandb):
    wandb.init()
    with vr.training.WandB() as tracker:
        fit(tracker)
    assert wandb.run is not None
    with pytest.raises(SettingError, match="project comes too late"):
        vr.training.WandB(project="b")


def test_counts_of_an_epoch_are_logged_too(wandb):
    counted = vr.analysis.Counted(vr.Uniform())
    with vr.training.WandB() as tracker:
        run = wandb.run
        vr.MF(dim=4).fit(TRAIN, counted, epochs=1, callbacks=[counted.on_epoch, tracker], progress=False)
    assert run.logged[0][1]["imbalance.max"] > 0


@pytest.mark.parametrize(("name", "module"), [("MLflow", "mlflow"), ("WandB", "wandb")])
def test_without_the_package_it_says_what_to_install(name, module):
    code = (
        f"import sys; sys.modules['{module}'] = None\n"
        "import vitalrank as vr\n"
        f"try: vr.training.{name}()\n"
        "except vr.SettingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install {module}." in done.stdout


# ---------------------------------------------------------------------------------------------------- themselves


def test_the_real_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("ranking")
    with vr.training.MLflow(run_name="a") as tracker:
        number = mlflow.active_run().info.run_id
        model = fit(tracker)
    run = mlflow.get_run(number)
    assert run.info.status == "FINISHED"
    assert run.data.params["sampler"] == repr(vr.DNS())
    assert run.data.metrics["best_epoch"] == model.history.best_epoch
    found = mlflow.MlflowClient().get_metric_history(number, "loss")
    assert [one.value for one in found] == [record["loss"] for record in model.history]
    assert run.data.metrics["ndcg_at_10"] == model.history[-1]["ndcg@10"]


def test_the_real_wandb(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.chdir(tmp_path)
    with vr.training.WandB(project="p", mode="offline", dir=str(tmp_path)) as tracker:
        run = wandb.run
        model = fit(tracker)
        assert run.config["sampler"] == repr(vr.DNS())
        assert run.summary["loss"] == model.history[-1]["loss"]
    assert wandb.run is None
    assert list(tmp_path.glob("**/*.wandb"))
