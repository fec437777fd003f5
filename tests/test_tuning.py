"""Tuning: the winner is what it says, a stopped study goes on as if it had not been, others join it."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest

import vitalrank as vr
from vitalrank.errors import SettingError, StorageError, TrainingError
from vitalrank.training import Trainer
from vitalrank.tuning import Settings, Trial

optuna = pytest.importorskip("optuna")

from vitalrank.tuning import studies  # noqa: E402
from vitalrank.tuning.methods import SEARCH_METHODS  # noqa: E402

CONFIG = vr.TrainConfig(epochs=4, threads=1)
RANGES = {"dim": [4, 8, 16], "beta": "0..1", "kappa": "2..32:log", "lr": "1e-3..0.1:log"}


@pytest.fixture(scope="module")
def parts():
    return vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0).split_last(0.2, valid=0.1)


@pytest.fixture(scope="module")
def tune(parts):
    train, valid, _ = parts
    return partial(vr.tune, train, valid, "mf", "vins", config=CONFIG)


@pytest.fixture(scope="module")
def whole(tune):
    """A study that was never stopped."""
    return tune(space=RANGES, trials=14)


def told(tuned):
    return [(trial.settings, trial.state, trial.value, trial.epoch, trial.epochs) for trial in tuned.trials]


# ---------------------------------------------------------------------------------------------------- the winner


def test_the_winner_trained_again_has_the_value_it_won_with(parts, whole):
    train, valid, _ = parts
    history = Trainer(whole.config, progress=False).fit(whole.make_model(), train, whole.make_sampler(), valid)
    assert max(record["ndcg@10"] for record in history) == whole.value
    assert history.best_epoch == whole.epoch


@pytest.mark.parametrize("space", ["paper", "wide"])
@pytest.mark.parametrize("method", ["tpe", "rounds"])
def test_the_winner_is_never_below_the_defaults(parts, tune, space, method):
    train, valid, _ = parts
    options = {"epochs": CONFIG.epochs, "threads": 1, "progress": False}
    default = vr.MF().fit(train, vr.VINS(), valid=valid, **options)
    tuned = tune(space=space, trials=30, method=method)
    first = tuned.trials[0]
    assert (first.number, first.state, first.epochs) == (0, "finished", CONFIG.epochs)
    assert first.value == max(record["ndcg@10"] for record in default.history)
    assert tuned.value >= first.value


def test_the_winner_is_the_best_of_the_finished(whole):
    finished = [trial for trial in whole.trials if trial.state == "finished"]
    assert whole.value == max(trial.value for trial in finished)
    assert whole.settings in [trial.settings for trial in finished if trial.value == whole.value]
    assert len(whole.trials) == 14


def test_settings_lie_in_their_ranges_by_what_they_are_of(whole):
    for trial in whole.trials:
        assert trial.settings.model["dim"] in (4, 8, 16)
        assert 0 <= trial.settings.sampler["beta"] <= 1
        assert isinstance(trial.settings.sampler["kappa"], int)
        assert 1e-3 <= trial.settings.training["lr"] <= 0.1
    assert whole.config.lr == whole.settings.training["lr"]
    assert whole.config.epochs == CONFIG.epochs


def test_the_test_part_does_not_matter(parts, tune):
    """Nothing but train and valid is given; the items of test are not seen either."""
    train, valid, test = parts
    tuned = tune(space={"dim": [4, 8]})
    assert tuned.make_model().fit(train, epochs=1, progress=False).train.fingerprint != test.fingerprint
    assert [trial.value for trial in tuned.trials] == [
        max(
            record["ndcg@10"]
            for record in Trainer(CONFIG, progress=False).fit(
                vr.MF(trial.settings.model["dim"]), train, vr.VINS(), valid
            )
        )
        for trial in tuned.trials
    ]


def test_trials_as_a_table(whole):
    lines = whole.to_csv().splitlines()
    assert lines[0].startswith("number,state,value,epoch,epochs,seconds,model.dim,sampler.beta")
    assert len(lines) == 15
    assert float(lines[1].split(",")[2]) == whole.value


def test_no_cell_of_the_table_is_a_formula(whole):
    hostile = replace(whole.trials[0], settings=Settings(model={"dim": -8, "name": "=cmd()"}, sampler={"w": "@a"}))
    line = replace(whole, trials=(hostile,)).to_csv().splitlines()[1]
    assert line.endswith(",-8,'=cmd(),'@a")


def test_the_old_name_of_the_callback_works_for_one_release(tune):
    news = []
    with pytest.warns(DeprecationWarning, match="callback"):
        tune(space={"dim": [4]}, follow=lambda number, one: news.append(one))
    assert isinstance(news[-1], Trial)


# ---------------------------------------------------------------------------------------------------- what is tried


def test_a_small_grid_is_tried_whole_and_once(tune):
    tuned = tune(space={"dim": [4, 8], "beta": [0.0, 0.5, 1.0]}, trials=50, pruner="none")
    points = {(trial.settings.model["dim"], trial.settings.sampler["beta"]) for trial in tuned.trials}
    assert len(tuned.trials) == len(points) == 6
    assert {trial.state for trial in tuned.trials} == {"finished"}


def test_a_part_of_a_grid_has_no_point_twice(tune):
    tuned = tune(space={"dim": [4, 8], "beta": [0.0, 0.5, 1.0], "kappa": [4, 8]}, trials=11, pruner="none")
    assert len({str(trial.settings) for trial in tuned.trials}) == len(tuned.trials) == 11


def test_the_settings_as_they_stand_come_first(tune):
    first = tune(space="wide", trials=1).trials[0].settings
    assert (first.model["dim"], first.training["lr"]) == (vr.MF().dim, CONFIG.lr)
    assert first.sampler == {"beta": 0.5, "kappa": 64, "margin": 1.0, "weight": "log2"}
    first = tune(space={"beta": "0.6..1"}, trials=1).trials[0].settings  # where they do not lie in it, something else
    assert 0.6 <= first.sampler["beta"] <= 1


def test_settings_that_were_tried_are_not_trained_again(tune):
    """As where a sampler picks the same value of a short range of whole numbers again."""
    news = []
    tuned = tune(space={"dim": "4..5"}, trials=6, callback=lambda number, one: news.append((number, one)))
    first = {trial.settings.model["dim"]: trial for trial in reversed(tuned.trials)}
    repeated = [trial for trial in tuned.trials if trial.state == "repeated"]
    assert len(first) == 2
    assert len(repeated) == 4
    assert all(trial.value == first[trial.settings.model["dim"]].value for trial in repeated)
    assert {number for number, one in news if isinstance(one, dict)} == {trial.number for trial in first.values()}


def test_a_trial_that_falls_behind_is_given_up(tune):
    # Six good ones first: with lr 1e-6 nothing is learnt.
    tuned = tune(
        space={"lr": [1e-6, 0.01, 0.011, 0.012, 0.013, 0.014, 0.015, 0.016]},
        config=vr.TrainConfig(epochs=12, threads=1),
        seed=2,
    )
    slow = next(trial for trial in tuned.trials if trial.settings.training["lr"] == 1e-6)
    assert slow.number >= 5
    assert slow.state == "pruned"
    assert slow.epochs < 12


def test_a_trial_that_diverges_does_not_end_the_search(tune):
    space = {"lr": [0.01, 1e6]}
    tuned = tune(space=space, config=vr.TrainConfig(epochs=3, optimizer="sgd", batch=64))
    assert sorted(trial.state for trial in tuned.trials) == ["diverged", "finished"]
    assert tuned.settings.training["lr"] == 0.01
    with pytest.raises(TrainingError, match="all 1 trials diverged"):
        tune(space={"lr": [1e6]}, config=vr.TrainConfig(epochs=3, optimizer="sgd", batch=64))


def test_a_trial_that_diverges_after_a_good_start_does_not_win(tune):
    config = vr.TrainConfig(epochs=8, optimizer="sgd", batch=64, threads=1)
    tuned = tune(space={"lr": [0.8, 1e-7], "dim": [16]}, config=config, pruner="none")
    lost, poor = sorted(tuned.trials, key=lambda trial: trial.state)
    assert (lost.state, lost.settings.training["lr"]) == ("diverged", 0.8)
    assert (lost.epochs > 0, lost.value) == (True, None)
    assert (tuned.settings, tuned.value) == (poor.settings, poor.value)


def test_a_setting_that_is_given_holds_whatever_the_model_likes(parts):
    pytest.importorskip("torch")
    train, valid, _ = parts
    config = vr.TrainConfig(epochs=1)
    free, held = (vr.tune(train, valid, "marank", space={"dim": [4]}, config=config, fixed=f) for f in ((), ("lr",)))
    assert (free.config.lr, held.config.lr) == (0.001, vr.TrainConfig().lr)


def test_models_without_steps_and_with_defaults_of_their_own(parts):
    train, valid, _ = parts
    tuned = vr.tune(train, valid, "itemknn", trials=3)
    assert tuned.epoch is None
    assert tuned.make_sampler() is None
    assert tuned.value == vr.evaluate(tuned.make_model().fit(train), valid, at=10)["ndcg@10"]
    pytest.importorskip("torch")
    tuned = vr.tune(train, valid, "cml", space={"dim": [4]}, config=vr.TrainConfig(epochs=1))
    assert (tuned.config.loss, tuned.config.margin) == ("hinge", 1.5)
    assert tuned.make_sampler() == vr.samplers.CML(margin=1.5)


@pytest.mark.parametrize(
    ("sampler", "space", "margins"),
    [
        (None, {"margin": [0.5]}, (0.5, 0.5)),
        (None, {"hinge_margin": [0.5]}, (0.5, 0.5)),
        (None, {"margin": [0.5], "hinge_margin": [0.75]}, (0.75, 0.5)),
        ("vins", {"margin": [0.5]}, (1.5, 0.5)),
    ],
)
def test_the_margin_of_cml_is_one_for_loss_and_sampler(parts, sampler, space, margins):
    pytest.importorskip("torch")
    train, valid, _ = parts
    tuned = vr.tune(train, valid, "cml", sampler, space={"dim": [4], **space}, config=vr.TrainConfig(epochs=1))
    assert (tuned.config.margin, tuned.make_sampler().margin) == margins


def test_a_model_of_ones_own(parts):
    train, valid, _ = parts
    make = partial(vr.MF, bias=True)
    tuned = vr.tune(train, valid, make, vr.VINS(kappa=8), space={"dim": [4, 8], "beta": [1.0]}, config=CONFIG)
    assert tuned.make_model().bias
    assert tuned.make_sampler() == vr.VINS(kappa=8, beta=1.0)


# ---------------------------------------------------------------------------------------------------- methods


@pytest.mark.parametrize("method", SEARCH_METHODS)
def test_every_method_is_a_function_of_the_seed_and_starts_with_the_defaults(tune, tmp_path, method):
    space = {"dim": [8, 64], "beta": [0.25, 0.5, 1.0], "margin": [0.5, 1.0]}
    if method != "grid":
        space["lr"] = "1e-3..0.1:log"
    same = {"space": space, "method": method, "pruner": "none", "config": vr.TrainConfig(epochs=1, threads=1)}
    one = tune(**same, trials=7)
    assert told(tune(**same, trials=7)) == told(one)
    assert told(tune(**same, trials=7, seed=1)) != told(one)
    assert one.trials[0].settings.model["dim"] == vr.MF().dim
    assert one.trials[0].settings.sampler == {"beta": 0.5, "margin": 1.0}
    storage = tmp_path / "study.db"
    with pytest.raises(KeyboardInterrupt):
        tune(**same, trials=7, storage=storage, callback=_stop_at(4))
    assert told(tune(**same, trials=7, storage=storage)) == told(one)


def test_rounds_come_nearer_to_the_best(tune):
    tuned = tune(space={"lr": "1e-3..0.1:log", "beta": "0..1"}, method="rounds", trials=13, pruner="none")
    best = max(tuned.trials[:10], key=lambda trial: trial.value).settings
    last = [trial.settings for trial in tuned.trials[10:]]  # in a quarter of the space around the best
    assert len(last) == 3
    assert all(abs(math.log(one.training["lr"] / best.training["lr"], 100)) <= 0.25 for one in last)
    assert all(abs(one.sampler["beta"] - best.sampler["beta"]) <= 0.25 for one in last)


def test_the_run_off_picks_the_best_mean_over_new_seeds(parts, tune, tmp_path):
    train, valid, _ = parts
    same = {"space": RANGES, "trials": 6, "storage": tmp_path / "study.db", "pruner": "none"}
    first = tune(**same)
    tuned = tune(**same, finalists=3, runoff_seeds=2)
    ranked = sorted(first.trials, key=lambda trial: -trial.value)
    assert told(tuned) == told(first)
    assert {str(one.settings) for one in tuned.finalists} == {str(trial.settings) for trial in ranked[:3]}
    assert tuned.value == max(one.mean for one in tuned.finalists) == tuned.finalists[0].mean
    assert tuned.settings == tuned.finalists[0].settings
    for number, value in enumerate(tuned.finalists[0].values, start=1):
        trainer = Trainer(replace(tuned.config, seed=CONFIG.seed + number), progress=False)
        history = trainer.fit(tuned.make_model(), train, tuned.make_sampler(), valid)
        assert max(record["ndcg@10"] for record in history) == value
    news = []
    again = tune(**same, finalists=3, runoff_seeds=2, callback=lambda number, one: news.append(one))
    assert news == []
    assert again.finalists == tuned.finalists


def _stop_at(stop):
    def callback(number, news):
        if number == stop:
            raise KeyboardInterrupt

    return callback


# ---------------------------------------------------------------------------------------------------- going on


def test_the_same_seed_gives_the_same_trials(tune, whole):
    assert told(tune(space=RANGES, trials=14)) == told(whole)
    assert told(tune(space=RANGES, trials=14, seed=1)) != told(whole)


@pytest.mark.parametrize("file", ["study.db", "study.journal"])
def test_a_study_goes_on_as_if_it_had_not_been_stopped(tune, whole, tmp_path, file):
    storage = tmp_path / "deep" / file
    tune(space=RANGES, trials=3, storage=storage)
    assert told(tune(space=RANGES, trials=12, storage=storage)) == told(whole)[:12]


def test_a_finished_study_is_not_trained_again(tune, whole, tmp_path):
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    tune(space=RANGES, trials=3, storage=storage)
    news = []
    again = tune(space=RANGES, trials=3, storage=storage, callback=lambda number, one: news.append(one))
    assert news == []
    assert told(again) == told(whole)[:3]


def test_ctrl_c_loses_the_running_trial_alone(tune, whole, tmp_path):
    def stop(number, news):
        if number == 3 and isinstance(news, dict):
            raise KeyboardInterrupt

    storage = tmp_path / "study.journal"
    with pytest.raises(KeyboardInterrupt, match="3 of 14 trials are done"):
        tune(space=RANGES, trials=14, storage=storage, callback=stop)
    assert told(tune(space=RANGES, trials=14, storage=storage)) == told(whole)


@pytest.mark.parametrize("file", ["study.db", "study.journal"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_disk_that_fills_ends_the_search_in_one_line_and_loses_no_trial(tune, tmp_path, file, workers):
    resource = pytest.importorskip("resource")  # not on Windows
    storage, (soft, hard) = tmp_path / file, resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(number, news):
        if isinstance(news, Trial):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))  # stands in for a full disk

    same = {"space": RANGES, "trials": 5, "storage": storage, "workers": workers}
    try:
        with pytest.raises(StorageError, match=r"cannot be written \(.+\) after [12] of 5 trials; mend") as told:
            tune(**same, callback=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(told.value)
    assert len(tune(**same).trials) == 5


def test_a_trial_of_a_process_that_is_gone_is_tried_again(tune, whole, tmp_path):
    """Whether its worker cannot be known, as of version 0.1, or was one of this process's id and host."""
    storage = tmp_path / "study.journal"
    tune(space=RANGES, trials=3, storage=storage)
    study = optuna.load_study(study_name="mf-vins", storage=studies.storage_of(storage))
    study.ask()
    study.ask().set_user_attr("worker", f"{socket.gethostname()}:{os.getpid()}")
    assert told(tune(space=RANGES, trials=14, storage=storage)) == told(whole)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"space": {"dim": [4, 8]}}, "space"),
        ({"seed": 1}, "search seed"),
        ({"config": vr.TrainConfig(epochs=5, threads=1)}, "epochs 4, not 5"),
        ({"pruner": "none"}, "pruner"),
    ],
)
def test_another_search_is_not_mixed_in(tune, tmp_path, change, part):
    storage = tmp_path / "study.db"
    same = {"space": {"dim": [4]}, "storage": storage}
    tune(**same)
    with pytest.raises(SettingError, match=part):
        tune(**{**same, **change})
    tune(**{**same, "study": "another", **change})  # under another name it may
    tune(**{**same, "config": vr.TrainConfig(epochs=4, threads=2)})  # where it runs does not matter


# ---------------------------------------------------------------------------------------------------- together


def test_several_workers_share_a_study(tune, tmp_path):
    finished = []
    tuned = tune(
        space=RANGES,
        trials=9,
        workers=3,
        storage=tmp_path / "study.journal",
        callback=lambda _, news: finished.append(news) if isinstance(news, Trial) else None,
    )
    assert len(tuned.trials) == len(finished) == 9
    assert len({str(trial.settings) for trial in tuned.trials}) == 9


def test_an_error_of_one_worker_stops_the_others(tune):
    def fail(number, news):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        tune(space=RANGES, trials=50, workers=2, callback=fail)


# ---------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"workers": 0}, "workers is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"pruner": "axe"}, "unknown pruner 'axe'"),
        ({"method": "luck"}, "unknown method 'luck'"),
        ({"method": "grid", "space": {"beta": "0..1"}}, "lists of values"),
        ({"runoff_seeds": -1}, "runoff_seeds is -1"),
    ],
)
def test_mistakes(tune, change, part):
    with pytest.raises(SettingError, match=part):
        tune(**change)


def test_a_place_that_cannot_hold_a_study(tune, tmp_path):
    (tmp_path / "file").write_text("")
    for storage in (tmp_path / "file" / "study.db", "foo://bar", tmp_path):
        with pytest.raises(StorageError, match=r"bar|file|test_a_place"):
            tune(storage=storage)


def test_without_optuna_it_says_what_to_install():
    code = (
        "import sys; sys.modules['optuna'] = None\n"
        "import vitalrank as vr\n"
        "try: vr.tune\n"
        "except vr.SettingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tuning needs optuna: pip install 'vitalrank[tune]'.\n"
