"""The parts of a study: trials, jobs, scheduling, protocols, claims, the command."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import vitalrank as vr
from test_paper import TINY, source_in
from vitalrank.cli import add_command, app, paper
from vitalrank.datasets import write_log
from vitalrank.errors import SettingError, StorageError
from vitalrank.paper.checks import Finding
from vitalrank.paper.claims import CLAIMS, STANDING, verdict
from vitalrank.paper.jobs import KINDS
from vitalrank.paper.logs import Source, cut
from vitalrank.paper.methods import METHODS
from vitalrank.paper.registry import find_experiments
from vitalrank.paper.scheduling import Task, WorkerPool, run_tasks
from vitalrank.paper.settings import StudySettings
from vitalrank.paper.store import Store
from vitalrank.paper.study import Study
from vitalrank.tuning.results import Settings

UNI = METHODS["uni"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return source_in(tmp_path_factory.mktemp("log"))


def lab_in(folder, source, **changes):
    return Study([source], replace(TINY, **changes), Store(folder))


def test_costly_samplers_may_have_fewer_trials(tmp_path, source):
    few, even = (lab_in(tmp_path, source, trials=8, costly_trials=trials) for trials in (4, None))
    assert [len(few.trials(source, METHODS[name])) for name in ("uni", "vins", "sa", "cml")] == [4, 4, 2, 2]
    assert len(even.trials(source, METHODS["sa"])) == 4  # the first round, half of all


# ------------------------------------------------------------------------------------------------------- jobs


def test_what_is_measured_may_have_a_device_of_its_own(tmp_path, source):
    study = lab_in(tmp_path, source, device="cuda:0", measured_on="cpu")
    devices = {kind: study.job(kind, source, UNI, Settings(), 0).device for kind in KINDS}
    assert {kind for kind, device in devices.items() if device == "cpu"} == {"long", "timed", "picture", "sized"}


def test_a_key_tells_units_apart_and_forgets_the_place(tmp_path, source):
    study = lab_in(tmp_path, source)
    job = study.trials(source, UNI)[0]
    moved = replace(source, path=shutil.copy(source.path, tmp_path / "little.parquet"))
    assert replace(job, source=moved).key == job.key
    others = [
        replace(job, seed=1),
        replace(job, kind="final"),
        replace(job, protocol="paper"),
        replace(job, device="cuda"),
        replace(job, source=replace(source, min_item=5)),
        replace(job, method=replace(UNI, training={"loss": "softmax"})),
        replace(job, method=replace(UNI, sampler=vr.DNS())),
        replace(job, settings=replace(job.settings, training={**job.settings.training, "reg": 0.5})),
    ]
    assert len({job.key, *(other.key for other in others)}) == 1 + len(others)


def test_a_key_knows_what_is_in_the_log(tmp_path, source):
    other = vr.datasets.synthetic(users=120, items=80, interactions=2500, seed=1)
    twin = Source.of(write_log(other, tmp_path / "little.parquet"), min_user=2, min_item=2)
    jobs = [lab_in(tmp_path, one).trials(one, UNI)[0] for one in (source, twin)]
    assert source.name == twin.name
    assert jobs[0].key != jobs[1].key
    with pytest.raises(SettingError, match="two logs are called 'little'"):
        Study([source, twin], TINY, Store(tmp_path))


def test_a_trial_never_looks_at_test(tmp_path, source, monkeypatch):
    study = lab_in(tmp_path, source)
    parts = cut(source, "valid")
    blind = {"train": parts["train"], "valid": parts["valid"]}
    monkeypatch.setattr("vitalrank.paper.jobs.cut", lambda *_: blind)
    for name in ("uni", "itemknn"):
        assert study.run_tasks([Task(study.trials(source, METHODS[name])[:1])])


def test_a_diverging_trial_is_a_result_that_cannot_win(tmp_path, source):
    study = lab_in(tmp_path, source)
    wild = replace(UNI, name="wild", training={"optimizer": "sgd", "lr": 1e6})
    fixed = replace(wild, space={"reg": UNI.space["reg"]})
    study.run_tasks([study.tune_and_run(source, fixed)])
    assert all("diverged" in study.store.read(job)["error"] for job in study.trials(source, fixed))
    assert study.best(source, fixed) is None
    assert study.finals(source, fixed) == []


def test_a_run_over_its_time_is_cut_and_marked(tmp_path, source):
    study = lab_in(tmp_path, source, run_seconds=1e-9)
    study.run_tasks([study.tune_and_run(source, UNI)])
    result = study.store.read(study.trials(source, UNI)[0])
    assert (result["cut"], result["epochs"]) == (True, 1)


def test_the_papers_protocol_picks_on_test(tmp_path, source):
    parts = cut(source, "paper")
    assert parts["valid"] is parts["test"]
    assert len(parts["train"]) + len(parts["test"]) == len(vr.read(source.path).k_core(2, 2))
    study = lab_in(tmp_path, source, protocol="paper", trials=1, seeds=1)
    study.run_tasks([study.tune_and_run(source, UNI)])
    job = study.finals(source, UNI)[0]
    assert study.store.outcome(job).metrics["ndcg@10"] == pytest.approx(study.store.read(job)["value"], rel=1e-6)


# ------------------------------------------------------------------------------------------------------- scheduling


def test_processes_give_what_one_process_gives(tmp_path, source):
    labs = [lab_in(tmp_path / "one", source), lab_in(tmp_path / "two", source, workers=2)]
    for study in labs:
        assert study.run_tasks([study.tune_and_run(source, UNI)])
    one, two = ([study.store.outcome(job) for job in study.finals(source, UNI)] for study in labs)
    assert [run.metrics for run in one] == [run.metrics for run in two]
    assert [run.per_user.tobytes() for run in one] == [run.per_user.tobytes() for run in two]


def test_a_job_of_two_tasks_is_run_once(tmp_path, source, monkeypatch):
    done = []
    monkeypatch.setattr("vitalrank.paper.scheduling.run_job", lambda job, *_: done.append(job.key) or {"value": 1.0})
    study = lab_in(tmp_path, source)
    jobs = study.trials(source, UNI)
    assert run_tasks([Task(jobs), Task(jobs)], study.store, WorkerPool(1, "cpu", None, None))
    assert sorted(done) == sorted(job.key for job in jobs)


def test_what_follows_is_run_as_soon_as_its_task_is_finished(tmp_path, source, monkeypatch):
    order = []
    monkeypatch.setattr("vitalrank.paper.scheduling.run_job", lambda job, *_: order.append(job) or {"value": 1.0})
    study = lab_in(tmp_path, source)
    first, second = study.trials(source, UNI)
    late = study.trials(source, METHODS["pop"])
    tasks = [Task(late, rank=2), Task([first], rank=1, then=lambda: [Task([second], rank=0)])]
    assert run_tasks(tasks, study.store, WorkerPool(1, "cpu", None, None))
    assert [job.key for job in order[:2]] == [first.key, second.key]
    assert len(order) == 4


def test_a_job_that_cannot_be_run_does_not_stop_the_others(tmp_path, source, monkeypatch):
    study = lab_in(tmp_path, source)
    broken, sound = study.trials(source, UNI)

    def run_job(job, *_):
        if job is broken:
            raise RuntimeError("no such kernel")
        return {"value": 1.0}

    monkeypatch.setattr("vitalrank.paper.scheduling.run_job", run_job)
    pool, told = WorkerPool(1, "cpu", None, None), []
    assert not run_tasks([Task([broken, sound])], study.store, pool, lambda job, result, _: told.append(result))
    assert sound in study.store
    assert broken not in study.store
    assert any("no such kernel" in result.get("error", "") for result in told)
    with pytest.raises(RuntimeError, match="no such kernel"):
        run_tasks([Task([broken])], study.store, pool)


def test_when_time_is_over_nothing_is_begun_and_the_rest_is_done_later(tmp_path, source):
    study = lab_in(tmp_path, source)
    jobs = study.trials(source, UNI)
    assert not run_tasks([Task(jobs)], study.store, WorkerPool(1, "cpu", None, time.time() - 1))
    assert not any(job in study.store for job in jobs)
    assert run_tasks([Task(jobs)], study.store, WorkerPool(1, "cpu", None, time.time() + 600))
    assert all(job in study.store for job in jobs)


def test_a_half_finished_study_can_be_shown(tmp_path, source):
    study = lab_in(tmp_path, source, budget_seconds=0.0)
    for experiment in find_experiments("all"):
        shown = experiment.collect(study)
        assert "|" in experiment.markdown(shown)
        json.dumps(shown)


# ------------------------------------------------------------------------------------------------------- settings


def test_a_file_takes_the_filter_of_its_name():
    assert (Source.of("yelp.tsv.gz").min_user, Source.of("steam.tsv.gz").min_item) == (10, 5)
    assert Source.of("steam.tsv.gz", min_user=0).min_user == 0


WRONG = [
    {"protocol": "best"}, {"protocol": [1]}, {"schedule": "steep"}, {"seeds": 0}, {"trials": 0}, {"workers": 0},
    {"epochs": "abc"}, {"dim": 2.5}, {"patience": 0}, {"costly_trials": "few"}, {"budget_seconds": "long"},
    {"timed_share": "half"}, {"search_seed": -1},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        StudySettings(**wrong)


# ------------------------------------------------------------------------------------------------------- claims


def test_a_verdict_counts_the_logs():
    yes, no = Finding("a", True, ""), Finding("b", False, "")
    assert [verdict(found) for found in (None, [yes, yes], [yes, no], [no])] == [
        "not run", "held", "partly", "did not hold",
    ]  # fmt: skip


def claim(text):
    return next(one for one in CLAIMS if text in one.text)


@pytest.mark.parametrize(("sd", "held"), [(0.01, True), (0.09, False), (None, True)])
def test_a_correlation_must_be_more_than_its_runs_differ(sd, held):
    found = {"uni": {"norm_correlation": {"mean": 0.04, "sd": sd, "runs": 1 if sd is None else 5}}}
    assert claim("larger norms").findings({"figure3": {"logs": {"a": found}}})[0].held == held


def test_a_gain_must_be_more_than_luck():
    def table(gain, p):
        found = {"ours_against": {"lfm-w": {"relative": {"ndcg@10": gain}, "p": p}}}
        return {"table2": {"logs": {"a": found}}}

    better = claim("better than LFM-W")
    assert [better.findings(table(*case))[0].held for case in ((0.05, 0.01), (0.05, 0.2), (-0.05, 0.01))] == [
        True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("epochs", "held"), [(120, False), (60, True)])
def test_a_whole_training_takes_its_epochs_as_they_were_timed(epochs, held):
    timed = {"vins": {"seconds": 1.0}, "lfm-w": {"seconds": 1.2}}
    rows = {"vins": {"epochs": {"mean": epochs}}, "lfm-w": {"epochs": {"mean": 100}}}
    results = {"table4": {"logs": {"a": timed}}, "table2": {"logs": {"a": {"rows": rows}}}}
    whole = next(one for one in STANDING if "0.65" in one.text)
    assert [found.held for found in whole.findings(results)] == [held]
    assert whole.findings({"table4": {"logs": {"a": timed}}}) is None  # how many epochs, Table 2 knows


def test_saved_time_is_measured_against_lfm_w():
    def table(seconds):
        rows = {"lfm-w": {"seconds": 2.0, "relative": 4.0}, "vins": {"seconds": seconds, "relative": 1.0}}
        return {"table4": {"logs": {"a": rows}}}

    assert claim("30 %").findings(table(1.2))[0].held
    assert not claim("30 %").findings(table(1.6))[0].held
    assert claim("30 %").findings({}) is None


# ------------------------------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def command():
    add_command(app, "paper")
    return lambda *arguments: CliRunner().invoke(app, ["paper", *map(str, arguments)])


def test_the_command_writes_a_figure_to_a_new_folder(command, source, tmp_path):
    out = tmp_path / "a" / "b"
    done = command("figure2", "--data", source.path, "--out", out, "--min-user", 2, "--min-item", 2, "--json")
    assert done.exit_code == 0, done.exception
    assert {"figure2.json", "figure2.svg", "index.md"} <= set(json.loads(done.stdout)["files"])
    facts = json.loads((out / "figure2.json").read_text())["facts"]
    assert facts["command"] == "vitalrank paper figure2 --data little.parquet --min-user 2 --min-item 2"


@pytest.mark.parametrize(("seconds", "finished"), [(0, False), (600, True)])
def test_the_command_says_what_is_left_undone(command, source, tmp_path, seconds, finished):
    study = ("--quick", "--methods", "itemknn", "--set", "trials=2", "--budget-seconds", seconds)
    logs = ("--data", source.path, "--min-user", 2, "--min-item", 2)
    done = command("table2", *logs, *study, "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["finished"] is finished
    assert ("The same command again resumes" in done.stderr) is not finished


def test_the_command_it_tells_has_what_changes_results():
    study = StudySettings.quick(seeds=3, workers=9, trial_epochs=4)
    logs, tuned = [Path("far/away/a.tsv"), Path("b.tsv")], Path("far/away/table2.json")
    chosen = {"min_user": 0, "min_item": None, "methods": "uni,vins", "tuned": tuned, "earlier": None}
    told = paper._command("all", logs, chosen, True, study)
    what = "--data a.tsv --data b.tsv --quick --min-user 0 --methods uni,vins --tuned table2.json"
    assert told == f"vitalrank paper all {what} --seeds 3 --set trial_epochs=4"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["table9"], "table9"),
        (["table1", "--methods", "uni,magic"], "magic"),
        (["table1", "--methods", ""], "no name"),
        (["table1", "--methods", " ,"], "no name"),
        (["table3", "--methods", "uni,dns"], "it needs lfm-w or vins."),
        (["table4", "--methods", "itemknn"], "it needs uni, pop,"),
        (["table5", "--methods", "uni"], "it needs lfm-w or vins."),
        (["figure3", "--methods", "dns"], "it needs uni or vins."),
        (["figure5", "--methods", "sa,itemknn"], "it needs uni, pop,"),
        (["figure7", "--methods", "pop"], "it needs uni, dns, lfm-w or vins."),
        (["variations", "--methods", "uni"], "it needs vins."),
        (["table1", "b.tsv"], "--data b.tsv"),
        (["table1", "--set", "size=3"], "size"),
        (["table1", "--protocol", "best"], "best"),
        (["table1", "--set", "device=tpu"], "tpu"),
        (["table1", "--set", "measured_on=tpu"], "tpu"),
    ],
)
def test_mistakes_are_told(command, source, tmp_path, arguments, word):
    done = command(*arguments, "--data", source.path, "--out", tmp_path)
    assert isinstance(done.exception, SettingError)
    assert word in str(done.exception)


def test_the_former_name_of_methods_still_works(command, source, tmp_path):
    done = command("table1", "--contenders", "uni,magic", "--data", source.path, "--out", tmp_path)
    assert "magic" in str(done.exception)
    assert "--methods" in done.stderr


EMPTY = json.dumps({
    "title": "", "logs": {},
    "facts": dict.fromkeys(("command", "settings", "contenders", "logs", "versions", "machine")),
})  # fmt: skip
DAMAGED = [
    "[]", "{}", EMPTY, '{"title": "", "logs": {}, "facts": {}}', '{"title": "", "logs": [], "facts": {}}', "nonsense",
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_data_beside_are_named_before_anything_is_run(command, source, tmp_path, text, monkeypatch):
    monkeypatch.setattr("vitalrank.paper.running.facts_of", None)  # never reached
    (tmp_path / "table1.json").write_text(text)
    done = command("figure2", "--data", source.path, "--out", tmp_path)
    assert isinstance(done.exception, StorageError)
    assert re.search(r"table1\.json: not the data of table1 .* remove it and run table1 again", str(done.exception))


def test_damaged_data_are_made_anew(command, source, tmp_path):
    (tmp_path / "table1.json").write_text("{}")
    assert command("table1", "--data", source.path, "--out", tmp_path, "--min-user", 2).exit_code == 0


@pytest.mark.parametrize("option", ["--out", "--work"])
def test_a_folder_that_cannot_be_written_is_told_before_training(command, source, tmp_path, option, monkeypatch):
    monkeypatch.setattr("vitalrank.paper.scheduling.run_job", None)  # never reached
    (tmp_path / "file").write_text("")
    places = {"--out": tmp_path / "out", "--work": tmp_path / "work", option: tmp_path / "file" / "below"}
    words = [word for pair in places.items() for word in pair]
    done = command("table2", "--data", source.path, "--methods", "itemknn", *words)
    assert isinstance(done.exception, StorageError)
    assert "cannot be written" in str(done.exception)


def test_all_leaves_out_what_would_be_empty():
    names = {experiment.name for experiment in find_experiments("all", ("uni",))}
    assert "figure3" in names
    assert not names & {"table3", "table5", "variations"}


def test_the_best_trials_meet_again_and_the_best_mean_wins(tmp_path, source):
    study = lab_in(tmp_path, source, trials=8, finalists=2, runoff_seeds=2)
    values = {}

    def give(jobs, value_of):
        for job in jobs:
            values[job.key] = value_of(job)
            study.store.write(job, {"value": values[job.key]})

    search = study.search(source, UNI)
    give(search.jobs, lambda job: job.settings.training["reg"])  # the first round, then those that it leads to
    give([job for job in search.jobs if job.key not in values], lambda job: job.settings.training["reg"])
    give([job for job in search.jobs if job.key not in values], lambda job: job.settings.training["reg"])
    again = [job for job in search.jobs if job.kind == "runoff"]
    tried = sorted((job.settings.training["reg"] for job in search.trials), reverse=True)
    assert study.best(source, UNI) is None
    assert sorted({job.settings.training["reg"] for job in again}, reverse=True) == tried[:2]
    assert [job.seed for job in again] == [0, 1, 0, 1]
    lucky = tried[0]
    give(again, lambda job: 0.5 - 0.1 * job.seed if job.settings.training["reg"] == lucky else 0.48)
    assert study.best(source, UNI).training["reg"] == tried[1]
