"""A training setting that a later version adds does not keep it from going on with what an earlier one saved."""

from __future__ import annotations

from dataclasses import asdict

import pytest

import vitalrank as vr
from vitalrank.errors import SettingError

LOG = vr.datasets.synthetic(users=40, items=30, interactions=500, seed=0)
NEW = "margin"  # stands for the setting that the earlier version did not have


def without_new(config):
    """The settings as the earlier version wrote them."""
    return {name: value for name, value in asdict(config).items() if name != NEW}


def fit(folder, **options):
    return vr.MF(dim=4).fit(LOG, vr.Uniform(), checkpoint=folder, progress=False, loss="hinge", **options)


@pytest.fixture
def stopped_run(tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        identity = vr.TrainConfig.run_identity
        earlier.setattr(
            vr.TrainConfig, "run_identity", lambda self: {k: v for k, v in identity(self).items() if k != NEW}
        )
        fit(tmp_path / "run", epochs=1)
    return tmp_path / "run"


def test_a_run_of_an_earlier_version_goes_on(stopped_run):
    assert len(fit(stopped_run, epochs=2, resume=True).history) == 2


def test_a_run_of_an_earlier_version_had_the_default(stopped_run):
    with pytest.raises(SettingError, match=r"trained with margin=1.0, not 3.0"):
        fit(stopped_run, epochs=2, resume=True, margin=3.0)


def test_a_comparison_of_an_earlier_version_goes_on(tmp_path, monkeypatch):
    def compare(seeds, **settings):
        config = vr.TrainConfig(epochs=1, loss="hinge", **settings)
        return vr.compare(LOG, ["uni"], seeds=seeds, config=config, out=tmp_path / "all")

    with monkeypatch.context() as earlier:
        earlier.setattr("vitalrank.comparing.planning.asdict", without_new)
        compare(1)
    assert len(compare(2).outcomes) >= 2
    with pytest.raises(SettingError, match=r"margin 1.0, not 3.0"):
        compare(2, margin=3.0)


def test_a_search_of_an_earlier_version_goes_on(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    train, valid = LOG.split_last(0.2)

    def tune(trials, **settings):
        config = vr.TrainConfig(epochs=1, loss="hinge", **settings)
        space = {"lr": vr.tuning.Range(0.001, 0.1)}
        storage = str(tmp_path / "study.db")
        return vr.tune(train, valid, "mf", "uni", space=space, trials=trials, config=config, storage=storage)

    with monkeypatch.context() as earlier:
        earlier.setattr("vitalrank.tuning.running.asdict", without_new)
        tune(1)
    assert len(tune(2).trials) == 2
    with pytest.raises(SettingError, match=r"has margin 1.0, not 3.0"):
        tune(3, margin=3.0)
