"""A refit: the training that validation picked, on the whole log, bit for bit that of a fresh model."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vitalrank as vr
from commands import QUICK, call, complaint, write_log
from vitalrank.errors import SettingError
from vitalrank.training.refitting import sampler_of

OPTIONS = {"lr": 0.02, "reg": 0.01, "seed": 3, "threads": 1, "progress": False}


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)


@pytest.fixture(scope="module")
def parts(log):
    return log.split_last(0.2, valid=0.1)


def picked(parts, sampler=None, **options):
    train, valid, _ = parts
    return vr.MF(dim=8).fit(train, sampler, valid=valid, **{**OPTIONS, "epochs": 8, "patience": 1, **options})


def vectors(model):
    return model.tensors()


def same(one, other):
    return all(np.array_equal(array, other.tensors()[name]) for name, array in one.tensors().items())


def test_it_is_a_fresh_fit_for_the_picked_epochs(log, parts):
    model = picked(parts, vr.DNS(candidates=4))
    best = model.history.best_epoch
    fresh = vr.MF(dim=8).fit(log, vr.DNS(candidates=4), **OPTIONS, epochs=best)
    again = model.refit(log, threads=1, progress=False)
    assert again is model
    assert len(model.history) == best
    assert model.train.fingerprint == log.fingerprint
    assert model.held_out == {}
    assert same(model, fresh)


def test_a_loaded_model_can_be_refitted(log, parts, tmp_path):
    model = picked(parts, vr.VINS(kappa=8))
    model.save(tmp_path / "a")
    assert same(vr.load(tmp_path / "a").refit(log, progress=False), model.refit(log, progress=False))


def test_a_falling_learning_rate_falls_as_it_did(log, parts):
    model = picked(parts, schedule="linear")
    rates = [record["lr"] for record in model.history][: model.history.best_epoch]
    model.refit(log, progress=False)
    assert [record["lr"] for record in model.history] == rates


def test_options_win(log, parts):
    assert len(picked(parts).refit(log, epochs=2, progress=False).history) == 2


def test_nothing_to_repeat(log):
    with pytest.raises(SettingError, match="call fit"):
        vr.MF().refit(log)


def test_a_sampler_of_ones_own_is_asked_for():
    history = vr.History()
    history.sampler = "Mine(object at 0x12)"
    with pytest.raises(SettingError, match="give sampler="):
        sampler_of(history)


def test_on_the_command_line(tmp_path, capsys):
    log = write_log(tmp_path / "log.tsv")
    words = ("fit", log, "--out", tmp_path / "a", "--refit", *QUICK)
    assert call(*words, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    model, first = vr.load(tmp_path / "a"), vr.load(tmp_path / "a.picked")
    assert shown["trained_on"] == len(model.train) == len(vr.read(log))
    assert shown["held_out"] == 0
    assert len(model.history) == first.history.best_epoch
    assert same(first.refit(vr.read(log), progress=False), model)
    assert "holds a run already" in complaint(capsys, *words)
    before = (tmp_path / "a" / "model.json").read_bytes()
    assert call(*words, "--resume") == 0
    assert (tmp_path / "a" / "model.json").read_bytes() == before
    capsys.readouterr()
    assert "--valid" in complaint(capsys, "fit", log, "--out", tmp_path / "b", "--refit", "--valid", 0)
    assert "refit" in complaint(capsys, "fit", log, "--out", tmp_path / "b", "--refit", "--model", "itemknn")
