"""Finished jobs of a study: when one counts as finished, and what a damaged file is met with."""

from __future__ import annotations

import json

import pytest

from test_paper import source_in
from test_paper_parts import lab_in
from vitalrank.errors import StorageError
from vitalrank.paper.methods import METHODS
from vitalrank.paper.scheduling import Task

UNI = METHODS["uni"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return source_in(tmp_path_factory.mktemp("log"))


def final_of(study, source):
    study.run_tasks([study.tune_and_run(source, UNI)])
    return study.finals(source, UNI)[0]


def test_a_run_whose_outcome_is_gone_is_run_again(tmp_path, source):
    study = lab_in(tmp_path, source)
    job = final_of(study, source)
    before = study.store.outcome(job)
    (tmp_path / f"{job.key}.outcome.json").unlink()
    again = lab_in(tmp_path, source)
    assert job not in again.store
    assert again.store.outcome(job) is None
    assert again.run_tasks([again.tune_and_run(source, UNI)])
    assert again.store.outcome(job).metrics == before.metrics


def test_a_run_that_diverged_has_no_outcome_and_is_finished(tmp_path, source):
    study = lab_in(tmp_path, source)
    job = study.job("final", source, UNI, study.trials(source, UNI)[0].settings, 0)
    study.store.write(job, {"error": "diverged", "value": None})
    assert job in lab_in(tmp_path, source).store


@pytest.mark.parametrize(
    ("then", "now", "is_finished"),
    [(1.0, 1.0, True), (1.0, 0.5, True), (1.0, 2.0, False), (1.0, None, False), (None, 2.0, True), (None, None, False)],
)
def test_a_run_that_was_cut_is_run_again_when_it_may_take_longer(tmp_path, source, then, now, is_finished):
    job = lab_in(tmp_path, source).trials(source, UNI)[0]
    known = {} if then is None else {"limit": then}  # older ones do not know it
    lab_in(tmp_path, source).store.write(job, {"value": 0.1, "cut": True, **known})
    assert (job in lab_in(tmp_path, source, run_seconds=now).store) is is_finished


def test_a_limit_counts_for_nothing_in_a_run_that_was_not_cut(tmp_path, source):
    study = lab_in(tmp_path, source, run_seconds=600.0)
    job = study.trials(source, UNI)[0]
    study.run_tasks([Task([job])])
    assert "limit" not in study.store.read(job)
    assert job in lab_in(tmp_path, source).store


def test_runs_cut_by_a_small_limit_are_not_taken_for_whole_ones(tmp_path, source):
    short = lab_in(tmp_path, source, run_seconds=1e-9)
    job = short.trials(source, UNI)[0]
    short.run_tasks([Task([job])])
    assert short.store.read(job)["limit"] == 1e-9
    whole = lab_in(tmp_path, source)
    assert whole.run_tasks([Task([job])])
    result = whole.store.read(job)
    assert (result["cut"], result["epochs"]) == (False, 4)


def test_a_result_knows_how_many_ran_beside_it(tmp_path, source):
    for workers in (1, 2):
        study = lab_in(tmp_path / str(workers), source, workers=workers)
        job = study.trials(source, UNI)[0]
        study.run_tasks([Task([job])])
        assert study.store.read(job)["workers"] == workers


@pytest.mark.parametrize(
    "found", [[], {}, 3, None, {"unit": 1, "result": {}}, {"result": None}, {"result": {"error": "?"}}], ids=json.dumps
)
@pytest.mark.parametrize("kind", ["trial", "long", "timed", "picture"])
def test_a_damaged_result_is_named(tmp_path, source, found, kind):
    study = lab_in(tmp_path, source)
    job = study.job(kind, source, UNI, study.trials(source, UNI)[0].settings, 0)
    place = tmp_path / f"{job.key}.json"
    place.write_text(json.dumps(found))
    with pytest.raises(StorageError, match=rf"{place.name}: not a whole result .* remove it to run it again"):
        study.store.read(job)
