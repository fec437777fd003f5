"""Settings of any kind take NumPy's numbers as they take Python's, and are written with Python's own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import vitalrank as vr
from vitalrank._util.checks import to_builtin_scalar, to_int
from vitalrank.comparing.planning import seeds_of
from vitalrank.tuning import Choice, Range

LOG = vr.datasets.synthetic(users=40, items=30, interactions=400, seed=0)


@pytest.mark.parametrize(
    ("numpy", "python"),
    [
        (vr.VINS(beta=np.float32(0.5), kappa=np.int64(5), shots=np.int8(2)), vr.VINS(beta=0.5, kappa=5, shots=2)),
        (vr.Popularity(beta=np.float64(0.25)), vr.Popularity(beta=0.25)),
        (vr.DNS(candidates=np.uint16(8)), vr.DNS(candidates=8)),
        (vr.SA(candidates=np.int32(4), temperature=np.float16(2)), vr.SA(candidates=4, temperature=2.0)),
        (vr.AOBPR(rho=np.float64(0.5), refresh=np.int64(3)), vr.AOBPR(rho=0.5, refresh=3)),
        (vr.samplers.IRGAN(temperature=np.float32(0.5)), vr.samplers.IRGAN(temperature=0.5)),
        (vr.TrainConfig(lr=np.float32(0.25), epochs=np.int64(2)), vr.TrainConfig(lr=0.25, epochs=2)),
        (vr.MF(dim=np.int64(8)), vr.MF(dim=8)),
        (vr.ItemKNN(shrinkage=np.float32(2)), vr.ItemKNN(shrinkage=2.0)),
        (Range(np.float32(0.25), np.int64(1)), Range(0.25, 1)),
        (Choice(tuple(np.array([4, 8]))), Choice((4, 8))),
    ],
)
def test_a_number_of_numpy_reads_as_one_of_python(numpy, python):
    assert repr(numpy) == repr(python)


def test_a_run_with_numbers_of_numpy_is_kept_and_resumed(tmp_path):
    options = {"lr": np.float32(0.25), "checkpoint": tmp_path / "a", "checkpoint_epochs": np.int64(1)}
    sampler = vr.VINS(kappa=np.int64(5), margin=np.float32(0.5))
    vr.MF(dim=np.int64(4)).fit(LOG, sampler, epochs=np.int64(1), **options)
    resumed = vr.MF(dim=4).fit(LOG, vr.VINS(kappa=5, margin=0.5), epochs=2, resume=True, **options)
    assert [record["epoch"] for record in resumed.history] == [1, 2]


def test_a_study_with_numbers_of_numpy_is_the_same_study(tmp_path):
    train, valid, _ = LOG.split_last(0.2, valid=0.2)
    given = {"config": vr.TrainConfig(epochs=1), "storage": tmp_path / "study.db"}
    space = {"dim": np.array([2, 4]), "beta": [np.float32(0.5)]}
    first = vr.tune(train, valid, "mf", "vins", space=space, trials=np.int64(2), seed=np.int64(1), **given)
    again = vr.tune(train, valid, "mf", "vins", space={"dim": [2, 4], "beta": [0.5]}, trials=2, seed=1, **given)
    assert again.trials == first.trials


def test_seeds_of_a_comparison_may_be_numbers_of_numpy():
    assert repr(seeds_of(np.int64(2))) == repr(seeds_of(np.arange(2))) == "[0, 1]"


@pytest.mark.parametrize("value", [True, np.bool_(True), 2.0, np.float32(2), "2", None])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(vr.SettingError, match="must be a whole number of at least 1"):
        to_int("dim", value)
    with pytest.raises(vr.SettingError, match="must be a whole number of at least 1"):
        vr.VINS(kappa=value)


@pytest.mark.parametrize("value", [True, "0.5", None, np.nan, np.float32("inf")])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(vr.SettingError, match=r"beta is .*from 0"):
        vr.VINS(beta=value)
    with pytest.raises(vr.SettingError, match="must be a number"):
        vr.TrainConfig(lr=value)


def test_only_numbers_change():
    assert to_builtin_scalar(Fraction(1, 2)) == 0.5
    assert to_builtin_scalar(True) is True
    assert to_builtin_scalar("8") == "8"


@pytest.mark.parametrize("epochs", [0, 2.5, True])
def test_a_run_is_kept_after_whole_epochs(tmp_path, epochs):
    with pytest.raises(vr.SettingError, match=f"checkpoint_epochs is {epochs}"):
        vr.MF(dim=2).fit(LOG, epochs=1, checkpoint=tmp_path / "a", checkpoint_epochs=epochs)


def test_a_comparison_takes_every_seed_that_a_fit_takes():
    assert seeds_of([0, 2**40]) == [0, 2**40]
    with pytest.raises(vr.SettingError, match=f"seed is {2**64}"):
        seeds_of([2**64])
