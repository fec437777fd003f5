"""Settings of an earlier study: read back whole, and its runs repeated without its search."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from test_paper import TINY, source_in
from vitalrank.cli import add_command, app
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError, StorageError
from vitalrank.paper.costs import _variations
from vitalrank.paper.known import known_for, read_known
from vitalrank.paper.methods import METHODS, StudyMethod
from vitalrank.paper.registry import find_experiments
from vitalrank.paper.running import facts_of, run_paper
from vitalrank.paper.store import Store
from vitalrank.paper.study import Study
from vitalrank.tuning.plans import plan_of
from vitalrank.tuning.results import Settings

NAMES = ("itemknn", "uni", "dns")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return source_in(tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def study(tmp_path_factory, source):
    """A study with its search: the study and the data of its Table 2."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("study")
    study = Study([source], TINY, Store(folder / "units"), NAMES)
    run_paper(find_experiments("table2"), study, folder)
    return study, folder / "table2.json"


def test_known_settings_are_those_that_the_search_found(study, source):
    study, table = study
    known = read_known(table)
    for name in NAMES:
        found, best = known[source.name, name], study.best(source, METHODS[name])
        for part in ("model", "sampler", "training"):
            values = getattr(found, part)
            assert values == {key: getattr(best, part)[key] for key in values}
    assert known[source.name, "dns"].sampler.keys() == {"candidates"}


def test_the_saved_study_can_be_repeated():
    """The settings in docs/paper are what the methods of this version search."""
    table = Path(__file__).parents[1] / "docs" / "paper" / "table2.json"
    rows = {name for log in json.loads(table.read_text())["logs"].values() for name in log["rows"]}
    known = read_known(table)
    assert {name for _, name in known} == rows
    assert len(known) == 4 * len(rows)


def test_only_what_is_asked_for_is_read(monkeypatch):
    """Repeating VINS's runs does not need the torch that CML needs."""

    def plan(method):
        if method.name == "cml":
            raise SettingError("CML needs torch")
        return plan_of(method.model, method.sampler, method.space, TrainConfig(**method.training))

    monkeypatch.setattr(StudyMethod, "plan", property(plan))
    table = Path(__file__).parents[1] / "docs" / "paper" / "table2.json"
    assert {name for _, name in read_known(table, ("uni", "vins"))} == {"uni", "vins"}
    with pytest.raises(StorageError, match="CML needs torch"):
        read_known(table)


def test_the_runs_are_repeated_without_the_search(study, source, tmp_path):
    study, table = study
    again = Study([source], TINY, Store(tmp_path / "units"), NAMES, known=read_known(table))
    _, is_finished = run_paper(find_experiments("table2"), again, tmp_path)
    assert is_finished
    for name in NAMES:
        assert again.finals(source, METHODS[name]) == study.finals(source, METHODS[name])
    runs = [job for name in NAMES for job in study.finals(source, METHODS[name])]
    assert {path.name.split(".")[0] for path in (tmp_path / "units").iterdir()} == {job.key for job in runs}
    first, second = (json.loads(path.read_text()) for path in (table, tmp_path / "table2.json"))
    for name in NAMES:
        rows = [data["logs"][source.name]["rows"][name] for data in (first, second)]
        assert rows[0]["metrics"] == rows[1]["metrics"]
        assert rows[1]["trials"] == 0
    assert "were taken from it" in (tmp_path / "index.md").read_text()


def test_what_is_taken_is_told_and_the_rest_is_searched(study, source, tmp_path):
    known = {place: found for place, found in read_known(study[1]).items() if place[1] == "uni"}
    study = Study([source], TINY, Store(tmp_path / "units"), NAMES, known={**known, ("else", "dns"): Settings()})
    facts = facts_of(study, "")
    assert (facts["searched"], facts["taken"]) == (False, {source.name: ["uni"]})
    run_paper(find_experiments("table2"), study, tmp_path)
    assert f"were taken from it** for Uni on {source.name}, not searched again" in (tmp_path / "index.md").read_text()
    elsewhere = replace(study, known={("else", "dns"): Settings()})
    assert facts_of(elsewhere, "")["searched"] is True


def test_a_table_of_other_logs_is_refused(study, source):
    assert known_for(study[1], [source.name, "b"], ("uni",)).keys() == {(source.name, "uni")}
    with pytest.raises(SettingError, match=rf"for {source.name}, not for mine; .* leave --tuned out"):
        known_for(study[1], ["mine"], NAMES)
    with pytest.raises(SettingError, match="for no log, not for"):
        known_for(study[1], [source.name], ("vins",))


def test_the_command_takes_a_table(study, source, tmp_path):
    add_command(app, "paper")
    logs = ("--data", source.path, "--min-user", 2, "--min-item", 2)
    words = ("paper", "table2", *logs, "--methods", "itemknn", "--tuned", study[1], "--out", tmp_path, "--json")
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.exception
    facts = json.loads((tmp_path / "table2.json").read_text())["facts"]
    assert facts["searched"] is False
    assert facts["command"].endswith("--methods itemknn --tuned table2.json")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"logs": 3}',
        '{"logs": {"a": {"rows": {"magic": {"settings": {}}}}}}',
        '{"logs": {"a": {"rows": {"uni": {"settings": {"lr": 0.1}}}}}}',
    ],
)
def test_what_is_not_a_table_is_refused(tmp_path, text):
    path = tmp_path / "table2.json"
    path.write_text(text)
    with pytest.raises(StorageError, match=r"table2\.json"):
        read_known(path)


def test_variations_have_seeds_that_nothing_was_picked_by(source, tmp_path):
    reg, others = {"reg": 0.05, "lr": 0.01}, {"margin": 0.7, "kappa": 64, "beta": 0.5, "weight": "none"}
    known = {(source.name, "vins"): Settings(sampler=others, training=reg)}
    study = Study([source], replace(TINY, runoff_seeds=3, variation_seeds=2), Store(tmp_path), ("vins",), known=known)
    jobs = [job for _, jobs in _variations(study, source) for job in jobs]
    assert {job.seed for job in jobs} == {3, 4}
