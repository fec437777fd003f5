"""The best model within a time budget: what is tried, what wins, what is a tie, stops and joins."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import vitalrank as vr
from commands import call, complaint, told, write_log
from vitalrank.errors import SettingError, StorageError

pytest.importorskip("optuna")

from vitalrank.comparing import Method, Outcome
from vitalrank.models.ease import FitCost
from vitalrank.selection import contest, running
from vitalrank.selection.candidates import candidates_of
from vitalrank.selection.clock import Clock, union_length
from vitalrank.selection.results import against_winner, verdict_of
from vitalrank.selection.runoff import run_off
from vitalrank.tuning import Trial, studies

SMALL = {"models": ["mostpopular", "itemknn", "mf"], "samplers": ["uni", "vins"], "minutes": 5}
CONFIG = vr.TrainConfig(epochs=4, threads=1)


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)


@pytest.fixture
def few(monkeypatch):
    """So few trials that the search ends long before its budget."""
    monkeypatch.setattr(contest, "MOST_TRIALS", 3)


def trials_of(found):
    return {entry.label: entry.trials for entry in found.ranking}


# -------------------------------------------------------------------------------------------------- what is found


def test_the_winner_is_trained_on_everything(log, few, tmp_path):
    news = []
    found = vr.best(log, **SMALL, config=CONFIG, out=tmp_path, callback=lambda label, one: news.append((label, one)))
    assert found.value == max(entry.value for entry in found.ranking)
    assert found.label == found.ranking[0].label
    assert trials_of(found) == {"mf uni": 3, "mf vins": 3, "itemknn": 3, "mostpopular": 1}
    assert {label for label, one in news if isinstance(one, Trial)} == set(trials_of(found))
    model = vr.load(tmp_path)
    assert model.train.fingerprint == log.fingerprint
    assert model.held_out == {}
    assert repr(model) == repr(found.model)
    for name, array in model.tensors().items():
        assert np.array_equal(array, found.model.tensors()[name])
    page = (tmp_path / "report.html").read_text()
    assert found.verdict.replace(">", "&gt;").replace("<", "&lt;") in page
    assert "What was searched" in page
    assert all(f"<td>{label}</td>" in page for label in trials_of(found))
    assert "verdict" in (tmp_path / "best.json").read_text()


def test_defaults_come_first_and_the_winner_is_no_worse(log, few):
    train, valid, _ = log.split_last(0.2, valid=0.1)
    first = {}
    found = vr.best(
        log, **SMALL, config=CONFIG,
        callback=lambda label, one: first.setdefault(label, one) if isinstance(one, Trial) else None,
    )  # fmt: skip
    default = vr.MF().fit(train, vr.VINS(), valid=valid, epochs=4, threads=1, progress=False)
    assert first["mf vins"].value == max(record["ndcg@10"] for record in default.history)
    assert found.value >= max(trial.value for trial in first.values())


def test_the_winner_with_steps_is_a_fit_of_its_settings(log, few):
    found = vr.best(log, models=["mf"], samplers=["dns"], minutes=5, config=CONFIG)
    assert found.label == "dns"
    options = {**found.training, "threads": 1, "progress": False}
    again = vr.MF(**found.settings.model).fit(log, found.sampler, **options)
    assert found.training["epochs"] == found.epoch
    for name, array in again.tensors().items():
        assert np.array_equal(array, found.model.tensors()[name])


def test_what_is_fixed_is_not_searched(log, few):
    found = vr.best(log, models=["mf"], samplers=["uni"], minutes=5, config=CONFIG, fixed=["reg", "epochs"])
    assert set(found.settings.training) == {"lr"}


def test_a_model_too_large_is_left_out(log, monkeypatch):
    monkeypatch.setattr("vitalrank.selection.fitting.available_memory", lambda: 1000)
    train = log.split_last(0.2, valid=0.1)[0]
    found, left_out = candidates_of(["ease", "mostpopular"], [], CONFIG, (), train, 60.0)
    assert [one.label for one in found] == ["mostpopular"]
    assert "GB of memory" in left_out["ease"]


def test_the_sparse_form_of_ease_takes_the_place_of_one_that_is_too_large(log, monkeypatch):
    train = log.split_last(0.2, valid=0.1)[0]
    monkeypatch.setattr("vitalrank.comparing.planning.NEIGHBOURS", 5)
    between = 1.2 * vr.EASE(neighbours=5).estimate(train).bytes / 0.8
    monkeypatch.setattr("vitalrank.selection.fitting.available_memory", lambda: between)
    monkeypatch.setattr(vr.EASE, "estimate", lambda self, train: FitCost(10**6 if self.neighbours is None else 1, 0.0))
    found, left_out = candidates_of(["ease"], [], CONFIG, (), train, 60.0)
    assert [one.label for one in found] == ["sparse ease"]
    assert found[0].plan.model(found[0].plan.settings(found[0].start)).neighbours == 5
    assert "takes its place" in left_out["ease"]


@pytest.mark.parametrize(("seconds", "rows"), [(60.0, 2_000), (600.0, 20_000), (6000.0, 20_000)])
def test_a_short_budget_is_not_spent_on_timing_models_in_torch(log, seconds, rows, monkeypatch):
    timed = []

    class Timed:
        def __init__(self, *_, **__):
            pass

        def fit(self, model, train, sampler):
            timed.append(len(train))
            return [{"seconds": 1e9}]

    monkeypatch.setattr("vitalrank.selection.fitting.Trainer", Timed)
    train, _ = log.split_last(0.2)
    found, left_out = candidates_of(["lightgcn", "itemknn"], ["uni"], CONFIG, (), train, seconds)
    assert timed == [rows]
    assert [one.label for one in found] == ["itemknn"]
    assert "would take more" in left_out["lightgcn uni"]


def test_who_competes_is_decided_once(log):
    train = log.split_last(0.2, valid=0.1)[0]
    decided = {"ease": ["none", "there was no time"]}
    found, left_out = candidates_of(["ease", "itemknn"], [], CONFIG, (), train, 60.0, decided)
    assert [one.label for one in found] == ["itemknn"]
    assert left_out == {"ease": "there was no time"}
    assert decided["itemknn"] == ["as it is", ""]


def test_models_in_torch_compete_where_the_time_suffices(log):
    pytest.importorskip("torch")
    train = log.split_last(0.2, valid=0.1)[0]
    short, long = (candidates_of(None, ["vins", "dns"], CONFIG, (), train, seconds) for seconds in (0.2, 1e6))
    assert {"lightgcn vins", "sasrec vins"} <= {one.label for one in long[0]}
    assert {"lightgcn vins", "sasrec vins"} <= set(short[1])
    assert "20 epochs in torch" in short[1]["sasrec vins"]


def test_what_is_cheap_is_tried_with_what_is_known_to_matter_before_any_training(log, few, monkeypatch):
    monkeypatch.setattr(contest, "MOST_TRIALS", 9)
    monkeypatch.setattr(contest, "_CHEAP", 1.0)
    order = []
    vr.best(
        log, models=["ease", "mf"], samplers=["uni"], minutes=5, config=CONFIG,
        callback=lambda label, one: order.append((label, one)) if isinstance(one, Trial) else None,
    )  # fmt: skip
    first = next(number for number, (label, _) in enumerate(order) if label == "mf uni")
    settings = [trial.settings.model for _, trial in order[:first]]
    assert settings[0] == {"reg": 300.0, "dropout": 0.0, "decay": 1.0}
    assert {one["decay"] for one in settings} >= {1.0, 0.98, 0.9, 0.8}
    assert {one["dropout"] for one in settings} >= {0.0, 0.35}


def test_settings_that_fit_does_not_read_need_no_other_fit(log, few, monkeypatch):
    monkeypatch.setattr(contest, "MOST_TRIALS", 4)
    monkeypatch.setattr(contest, "_CHEAP", 1.0)
    fits, values = [], {}
    fit = vr.EASE.fit
    monkeypatch.setattr(vr.EASE, "fit", lambda self, log: fits.append(repr(self)) or fit(self, log))

    def report(label, one):
        values[one.settings.model["decay"]] = one.value

    vr.best(log, models=["ease"], samplers=[], minutes=5, config=CONFIG, callback=report)
    train, valid, _ = log.split_last(0.2, valid=0.1)
    assert set(values) == {1.0, 0.98, 0.9, 0.8}
    assert values == {decay: fit(vr.EASE(decay=decay), train).score(valid) for decay in values}
    assert len(fits) == 4  # the toy one, the first, that of the final, that of the winner


def test_finalists_are_trained_on_all_but_test(log, few):
    found = vr.best(log, models=["itemknn"], samplers=[], minutes=5, config=CONFIG)
    rest, test = log.split_last(0.2)
    model = vr.ItemKNN(**found.settings.model).fit(rest)
    assert found.ranking[0].test == model.score(test)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minutes": 0}, "above 0"),
        ({"models": []}, "nothing to compare"),
        ({"models": ["nothing"]}, "unknown model"),
        ({"valid": 0.0}, "valid set is empty"),
        ({"config": vr.TrainConfig(metric="coverage@10")}, "cannot rank"),
    ],
)
def test_what_cannot_be_searched(log, options, words):
    with pytest.raises(SettingError, match=words):
        vr.best(log, **{**SMALL, **options})


# ---------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("last", "random", "winner"),
    [
        ({"a": 0.3, "b": 0.5}, {}, 1),  # clear on the last rows
        ({"a": 0.51, "b": 0.5}, {"a": 0.2, "b": 0.4}, 1),  # a tie, decided by random rows
        ({"a": 0.51, "b": 0.5}, {"a": 0.4, "b": 0.4}, 0),
    ],
)
def test_a_run_off_decides_what_valid_cannot(log, last, random, winner, monkeypatch):
    monkeypatch.setattr("vitalrank.selection.runoff.final_seconds", lambda *_: 1.0)
    monkeypatch.setattr("vitalrank.selection.runoff.refit_seconds", lambda *_: 1.0)
    monkeypatch.setattr("vitalrank.selection.runoff.method_of", lambda label, _: Method(label, vr.MostPopular))
    values = {"last": last, "random": random}
    noise = np.random.default_rng(0).normal(size=(2, 200)) * 0.2
    noise -= noise.mean(axis=1, keepdims=True)

    def measure(fold, methods):
        rows = zip(methods, noise, strict=True)
        return [outcome(one.label, values[fold][one.label] + own) for one, own in rows]

    clock = Clock(studies.open_study(None, "clock", "none", 1, {}), 60.0)
    near = [("a", None), ("b", None)]
    assert run_off(near, clock, "ndcg@10", lambda _: False, measure) == winner
    short = Clock(clock.study, 4.0)  # seconds: not enough for both
    assert run_off(near, short, "ndcg@10", lambda _: False, measure) == 0


def outcome(label, values):
    values = np.asarray(values, float)
    return Outcome(label, label, None, 0, {"ndcg@10": float(values.mean())}, {}, [], None, 0.0, {}, per_user=values)


def verdict(winner, *outcomes):
    return verdict_of(winner, "ndcg@10", outcomes, against_winner(winner, outcomes))


def test_the_words_of_a_verdict():
    noise = np.random.default_rng(0).normal(0.0, 0.01, 200)
    a, near, far = outcome("a", 0.5 + noise), outcome("b", 0.5 + noise[::-1]), outcome("c", 0.2 + noise[::-1])
    assert "a tie with b" in verdict("a", a, near, far)
    assert "more than luck" in verdict("a", a, far)
    assert "but a is better there by 149.9 %" in verdict("c", a, far)
    assert verdict("a", a) == "a is the best on valid; on test it reaches ndcg@10 0.5002."
    assert verdict_of("a", "ndcg@10", [a], {}, is_first=False).startswith("a won the run-off, as valid could not")
    assert "too few test users" in verdict("a", outcome("a", [1.0]), outcome("b", [0.0]))


# ----------------------------------------------------------------------------------------------- time, stops, joins


def test_time_of_killed_and_of_parallel_processes():
    assert union_length([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0)]) == 4.0
    study = studies.open_study(None, "best", "none", 5, {})
    study.set_user_attr("session:gone", [1000.0, 1040.0])
    assert 40.0 <= Clock(study, 100.0).spent() < 60.0


def test_a_limit_stops_a_trial_after_an_epoch(log):
    train, valid, _ = log.split_last(0.2, valid=0.1)
    candidates, _ = candidates_of(["mf"], ["uni"], CONFIG, (), train, 60.0)
    clock = Clock(studies.open_study(None, "best", "none", 4, {}), 60.0)
    parts = {"train": train, "valid": valid}
    with contest.opened(candidates, parts, None, 0, None, clock):
        search = candidates[0].search
        assert search.run_one(0.0)
        assert search.run_one(1e6)  # has time for more epochs: the same settings again, or others after them
        first, second = (search.trial(trial) for trial in search.claims.finished)
    assert (first.state, first.epochs) == ("stopped", 1)
    assert first.value is not None
    assert second.settings == first.settings
    assert (second.state, second.epochs) == ("finished", 4)


def test_the_shortest_time_gives_a_result(log):
    found = vr.best(log, models=["mostpopular", "mf"], samplers=["uni"], minutes=1e-6, config=CONFIG)
    assert found.label == "mostpopular"


def test_the_same_again_goes_on_and_more_trials_are_added(log, monkeypatch, tmp_path):
    monkeypatch.setattr(contest, "MOST_TRIALS", 2)
    first = vr.best(log, **SMALL, config=CONFIG, out=tmp_path)
    before = (tmp_path / "tensors.safetensors").read_bytes()
    news = []
    again = vr.best(log, **SMALL, config=CONFIG, out=tmp_path, callback=lambda *one: news.append(one))
    assert news == []
    assert trials_of(again) == trials_of(first)
    assert (tmp_path / "tensors.safetensors").read_bytes() == before
    monkeypatch.setattr(contest, "MOST_TRIALS", 3)
    more = vr.best(log, **SMALL, config=CONFIG, out=tmp_path)
    assert trials_of(more)["mf vins"] == 3
    assert more.value >= first.value


def test_who_was_at_work_when_the_final_began_takes_its_ranking(log, few, tmp_path):
    asked = {"models": ["mostpopular", "itemknn"], "minutes": 5, "config": CONFIG, "out": tmp_path}
    first = vr.best(log, **asked).label
    study = studies.open_study(tmp_path / "study.db", "best", "none", 4, {})
    note = study.user_attrs["ranking"]
    early = [place for place in note["places"] if place[0] != first]  # the first came to its end too late
    study.set_user_attr("ranking", {"at": note["at"] + 1e6, "places": early})
    assert [vr.best(log, **asked).label] == [label for label, _ in early]
    study.set_user_attr("ranking", {"at": note["at"], "places": early})
    assert vr.best(log, **asked).label == first


def test_a_trial_of_another_process_is_waited_for(log, few, monkeypatch):
    train, valid, _ = log.split_last(0.2, valid=0.1)
    candidates, _ = candidates_of(["itemknn"], [], CONFIG, (), train, 60.0)
    clock = Clock(studies.open_study(None, "best", "none", 4, {}), 600.0)
    with contest.opened(candidates, {"train": train, "valid": valid}, None, 0, None, clock):
        claims = candidates[0].search.claims
        monkeypatch.setattr(claims.worker, "is_alive", lambda name: True)
        monkeypatch.setattr(claims.worker, "name", "other")
        other = claims.claim(candidates[0].start, claims.history())
        claims._running.clear()
        monkeypatch.setattr(claims.worker, "name", "this")
        outcome = {"state": "finished", "value": 0.9, "epoch": None, "epochs": 0, "seconds": 0.1}
        monkeypatch.setattr(contest.time, "sleep", lambda _: claims.finish(other, outcome, 0.9, True))
        search = contest.Contest(candidates, clock)
        search.run()
        assert search.ranked()[0][1].value == 0.9
        assert len(claims.finished) == 3


def test_another_log_is_refused(log, few, tmp_path):
    vr.best(log, **{**SMALL, "models": ["mostpopular"]}, out=tmp_path)
    other = vr.datasets.synthetic(users=70, items=60, interactions=1200, seed=1)
    with pytest.raises(SettingError, match="ask for the same"):
        vr.best(other, **{**SMALL, "models": ["mostpopular"]}, out=tmp_path)


@pytest.mark.parametrize("name", ["report.html", "results.csv", "best.json"])
def test_files_of_others_stay(log, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(StorageError):
        vr.best(log, **SMALL, out=tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_model_of_others_stays(log, tmp_path):
    vr.MostPopular().fit(log).save(tmp_path)
    with pytest.raises(StorageError, match="holds a run already"):
        vr.best(log, **SMALL, out=tmp_path)


SCRIPT = """
import sys
import vitalrank as vr
from vitalrank.selection import contest, running
contest.MOST_TRIALS = 4
log = vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)
def report(label, news):
    print(label, flush=True)
found = vr.best(log, models=["mostpopular", "itemknn", "mf"], samplers=["uni", "vins"], minutes=5, out=sys.argv[1],
                config=vr.TrainConfig(epochs=4, threads=1), callback=report)
print("winner", found.label, found.value, flush=True)
"""


def start(out):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(out)], stdout=subprocess.PIPE, text=True)


def test_a_killed_search_goes_on_and_others_join(tmp_path):
    killed = start(tmp_path)
    assert killed.stdout is not None
    while "mf" not in killed.stdout.readline():
        time.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    joined = [start(tmp_path) for _ in range(2)]
    ends = [process.communicate(timeout=300)[0].splitlines()[-1] for process in joined]
    assert [process.returncode for process in joined] == [0, 0]
    assert ends[0].startswith("winner")
    assert ends[0] == ends[1]
    study = studies.open_study(tmp_path / "study.db", "mf-vins", "median", 4, {})
    finished = [trial for trial in study.trials if trial.state.is_finished() and trial.user_attrs.get("outcome")]
    assert len(finished) == 4
    assert len({str(trial.params) for trial in finished}) == 4
    assert vr.load(tmp_path) is not None


# ------------------------------------------------------------------------------------------------ the command line


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.tsv")


WORDS = ("--minutes", 5, "--models", "mostpopular,itemknn,mf", "--samplers", "vins", "--epochs", 2, "--threads", 1)


def test_the_command(file, few, tmp_path, capsys):
    out = tmp_path / "b"
    assert call("best", file, "--out", out, *WORDS) == 0
    shown, lines = capsys.readouterr()
    assert "mostpopular: finished" in lines
    assert "vitalrank recommend" in shown
    found = told(capsys, "best", file, "--out", out, *WORDS)
    assert found["ranking"][0]["label"] == found["winner"]
    assert len(found["next"]) == 3
    assert all(command.startswith("vitalrank ") for command in found["next"])
    for command in found["next"]:
        assert call(*(word.strip("'") for word in command.split()[1:])) == 0
    assert len(vr.load(f"{out}-next").train) == len(vr.read(file))


def test_a_mistake_is_one_line(file, tmp_path, capsys):
    assert "unknown model" in complaint(capsys, "best", file, "--out", tmp_path / "b", "--models", "nothing")
    assert "valid" in complaint(capsys, "best", file, "--out", tmp_path / "b", "--valid", 0)


@pytest.mark.parametrize("where", ["the trials", "the refit"])
def test_a_stop_says_how_the_search_goes_on(log, few, tmp_path, monkeypatch, where):
    def stop(*_):
        raise KeyboardInterrupt("stopped after epoch 1; give checkpoint=.")  # as a fit says

    asked = {"models": ["mostpopular", "itemknn"], "minutes": 5, "config": CONFIG}
    if where == "the refit":
        monkeypatch.setattr(running, "refit_winner", stop)
    else:
        asked["callback"] = stop
    with pytest.raises(KeyboardInterrupt, match=r"^stopped; the same again goes on where it was\.$"):
        vr.best(log, **asked, out=tmp_path)
    with pytest.raises(KeyboardInterrupt, match="give out= to be able to go on"):
        vr.best(log, **asked)
