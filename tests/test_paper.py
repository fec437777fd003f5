"""A tiny study of the paper: every experiment's data, their invariants, and the files they become."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

import vitalrank as vr
from vitalrank.datasets import write_log
from vitalrank.paper.costs import _sized
from vitalrank.paper.logs import Source
from vitalrank.paper.methods import METHODS
from vitalrank.paper.registry import EXPERIMENTS, find_experiments
from vitalrank.paper.running import run_paper
from vitalrank.paper.settings import StudySettings
from vitalrank.paper.store import Store
from vitalrank.paper.study import Study

TINY = StudySettings(
    seeds=2, trials=2, epochs=4, patience=2, valid_every=2, dim=8, model_trials=1, model_seeds=1, model_epochs=2,
    buffer_seeds=1, variation_seeds=1, long_epochs=10, timed_epochs=2,
)  # fmt: skip
LOG = "little"
NAMES = (
    "itemknn", "ease", "als", "uni", "pop", "cml", "sa", "irgan", "dns", "lfm-w", "vins", "dns-top", "ahns", "softmax",
    "ssm", "in-batch", "bsl", "vins-log2", "lfm-w-harmonic",
)  # fmt: skip


def source_in(folder: Path) -> Source:
    log = vr.datasets.synthetic(users=120, items=80, interactions=2500, seed=0)
    return Source.of(write_log(log, folder / f"{LOG}.parquet"), min_user=2, min_item=2)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Everything run once: the study and the folder of its files."""
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("paper")
    study = Study([source_in(folder)], TINY, Store(folder / "units"), NAMES)
    run_paper(find_experiments("all"), study, folder / "out", "vitalrank paper all")
    return study, folder / "out"


@pytest.fixture(scope="module")
def data(study):
    """The data of every experiment on the one log."""
    return {name: json.loads((study[1] / f"{name}.json").read_text())["logs"][LOG] for name in EXPERIMENTS}


# ------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_leaves_data_a_table_and_a_figure(study, name):
    out = study[1]
    facts = json.loads((out / f"{name}.json").read_text())["facts"]
    assert {"command", "settings", "contenders", "logs", "versions", "machine"} <= facts.keys()
    assert "| --- |" in (out / f"{name}.md").read_text()
    drawn = [path for path in out.glob(f"{name}.*") if path.suffix in (".svg", ".png")]
    assert len(drawn) == (EXPERIMENTS[name].draw is not None)
    assert all(path.stat().st_size < 400_000 for path in drawn)


def test_nothing_written_tells_of_this_machine(study):
    study, out = study
    text = "".join(path.read_text() for path in out.iterdir() if path.suffix in (".md", ".json"))
    assert str(Path(study.sources[0].path).parent) not in text
    assert str(Path.home()) not in text


def test_the_page_has_a_verdict_for_every_claim(study):
    page = (study[1] / "index.md").read_text()
    assert "not run" not in page
    assert "not the paper's" in page
    assert "| VINS, the paper's weight | LFM-W |" in page
    assert "claims need experiments" not in page
    for name in EXPERIMENTS:
        assert f"({name}.md)" in page


# ------------------------------------------------------------------------------------------------------- invariants


def test_table_1_is_the_filtered_log(study, data):
    log = vr.read(study[0].sources[0].path).k_core(2, 2)
    row = data["table1"]
    assert (row["users"], row["items"], row["observations"]) == (log.n_users, log.n_items, len(log))


def test_theorem_1_holds_and_beta_narrows_the_range(data):
    found = data["figure2"]
    assert set(found["ordered"]) == {1.0}
    assert all(later < earlier for earlier, later in pairwise(found["max"]))
    assert all(later > earlier for earlier, later in pairwise(found["min"]))


def test_psi_falls_with_the_rank_and_the_trial_agrees(data):
    found = data["figure4"]
    assert all(later < earlier for earlier, later in pairwise(found["psi"]))
    assert found["psi"][-1] == pytest.approx(0.0, abs=1e-6)
    for formula, trial in zip(found["psi"], found["psi_simulated"], strict=True):
        assert trial == pytest.approx(formula, rel=0.2, abs=0.05)


def test_every_method_has_the_same_budget(data):
    rows = data["table2"]["rows"]
    assert rows.keys() == set(NAMES)
    for name, row in rows.items():
        deep = METHODS[name].model == "irgan"
        runs = TINY.seeds if METHODS[name].is_seeded and not deep else 1
        assert row["trials"] == (TINY.model_trials if deep else TINY.trials)
        assert row["metrics"]["ndcg@10"]["runs"] == runs


def test_table_2_ranks_by_its_means(data):
    table = data["table2"]
    means = [table["rows"][name]["metrics"]["ndcg@10"]["mean"] for name in table["order"]]
    assert means == sorted(means, reverse=True)
    baselines = [name for name in table["order"] if not METHODS[name].beyond and name != "vins"]
    assert [table["best_baseline"], table["second_baseline"]] == baselines[:2]
    assert table["ours_against"].keys() == set(NAMES) - {"vins"}
    assert table["forms_against"].keys() == {"vins-log2"}
    assert table["forms_against"]["vins-log2"].keys() == {"lfm-w", "lfm-w-harmonic", "dns"}
    for one, against in {"vins": table["ours_against"], **table["forms_against"]}.items():
        ours = table["rows"][one]["metrics"]["ndcg@10"]["mean"]
        for name, found in against.items():
            theirs = table["rows"][name]["metrics"]["ndcg@10"]["mean"]
            assert found["relative"]["ndcg@10"] == pytest.approx(ours / theirs - 1)
            assert 0 <= found["p"] <= 1


def test_static_samplers_need_one_try_and_searchers_at_least_one(data):
    rows = data["table2"]["rows"]
    assert rows["uni"]["tries"]["mean"] == 1.0
    assert rows["uni"]["search_processor_seconds"] > rows["uni"]["processor_seconds"]["mean"] / 2 > 0
    for name in ("lfm-w", "vins"):
        assert data["table3"][name].keys() == {"5", "10"}
        for cell in data["table3"][name].values():
            assert cell["mean"] >= 1.0
            assert cell["sd"] >= 0.0


def test_the_imbalance_of_vins_lies_inside_uniforms_range(data):
    for figure in ("figure5", "figure6"):
        ours, uniform = data[figure]["vins"], data[figure]["uni"]
        assert ours["max"][-1] <= uniform["max"][-1]
        assert ours["min"][-1] >= uniform["min"][-1]
    assert not {"sa", "pris", "irgan", "softmax", "ssm", "in-batch", "bsl", "als", "ease"} & data["figure5"].keys()


def test_uniform_is_the_unit_of_time(data):
    assert data["table4"]["uni"]["relative"] == 1.0
    assert data["table4"].keys() == set(NAMES) - {"itemknn", "ease", "als"}
    assert all(row["seconds"] > 0 for row in data["table4"].values())


def test_a_buffer_bounds_the_tries(data):
    for found in data["table5"].values():
        assert list(found) == ["8", "16", "32", "64", "128", "1024"]
        assert all(1.0 <= cell["tries"]["mean"] <= int(size) for size, cell in found.items())


def test_every_model_is_run_with_every_sampler(data):
    assert data["figure7"] == data["figure8"] == data["figure9"]
    assert {model: set(found) for model, found in data["figure9"].items()} == {
        model: {"uni", "dns", "lfm-w", "vins"} for model in ("mf", "fpmc", "marank")
    }


def test_a_variation_is_told_against_the_tuned_one(data):
    rows = data["variations"]
    assert rows["as tuned"]["relative"] == 0.0
    assert {"no weight", "exact draws", "margin 2", "beta 0 (uniform draws)", "reg times 2"} <= rows.keys()


def test_the_picture_shows_items_of_all_classes(data):
    for found in data["figure3"].values():
        assert len(found["points"]) == len(found["degree_class"])
        assert set(found["degree_class"]) == {0, 1, 2}


# ------------------------------------------------------------------------------------------------------- again


def test_a_finished_study_runs_nothing_again(study, tmp_path):
    study, out = study
    told = []
    again = Study(
        study.sources, study.settings, Store(study.store.folder), NAMES, callback=lambda *news: told.append(news)
    )
    run_paper(find_experiments("all"), again, tmp_path, "vitalrank paper all")
    assert not told
    for name in EXPERIMENTS:
        assert (tmp_path / f"{name}.json").read_text() == (out / f"{name}.json").read_text()
        assert (tmp_path / f"{name}.md").read_text() == (out / f"{name}.md").read_text()


def test_units_are_shared_between_experiments(study):
    study = study[0]
    source, ours = study.sources[0], METHODS["vins"]
    final = study.finals(source, ours)[0]
    tuned, other = (_sized(study, source, ours, size)[0].key for size in (final.sampler.kappa, final.sampler.kappa + 1))
    assert tuned == final.key
    assert other != final.key
