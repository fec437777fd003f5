"""What the pages of a study say of its data."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from vitalrank.paper.page import write_page
from vitalrank.paper.registry import EXPERIMENTS
from vitalrank.paper.settings import StudySettings


def timed(*workers):
    """Table 4 of runs with so many side by side; today's option is 8."""
    rows = {
        name: {"label": name, "seconds": 1.0, "relative": 1.0, **({} if many is None else {"workers": many})}
        for name, many in zip(("uni", "dns", "vins"), workers, strict=False)
    }
    return EXPERIMENTS["table4"].markdown({"logs": {"a": rows}, "workers": 8, "epochs": 30})


def by_model(**more):
    spread = {"mean": 1.0, "sd": None}
    row = {"label": "Uni", **dict.fromkeys(("seconds", "training_seconds", "f1@10", "ndcg@10"), spread), **more}
    return {"logs": {"a": {"mf": {"uni": row}}}}


@pytest.mark.parametrize(
    ("workers", "said"), [((1, 1), "1 run(s)"), ((1, 4), "1 or 4 run(s)"), ((None, None), "8 run(s)"), ((), "8 run(s)")]
)
def test_table_4_says_how_many_ran_side_by_side_when_it_was_timed(workers, said):
    assert f", {said} side by side" in timed(*workers)


def test_rows_of_an_earlier_study_do_not_speak_for_this_one():
    rows = {
        "uni": {"label": "Uni", "seconds": 1.0, "relative": 1.0, "workers": 1},
        "dns": {"label": "DNS", "seconds": 1.0, "relative": 1.0, "workers": 9, "earlier": "old"},
    }
    assert ", 1 run(s) side by side" in EXPERIMENTS["table4"].markdown({"logs": {"a": rows}, "workers": 2, "epochs": 3})


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, ": side by side on a machine"),
        ({"workers": 6}, "side by side, up to 6 of them"),
        ({"workers": 1}, ": one after"),
    ],
)
def test_figure_7_says_that_its_runs_shared_the_machine(known, said):
    page = EXPERIMENTS["figure7"].markdown(by_model(**known))
    assert said in page
    assert "Table 4 is the timing" in page
    assert "Table 4" not in EXPERIMENTS["figure8"].markdown(by_model(**known))


# ------------------------------------------------------------------------------------------------------- Table 2


def test_every_metric_has_its_own_best_baseline():
    def row(f1, ndcg):
        values = {"f1@10": {"mean": f1, "sd": None}, "ndcg@10": {"mean": ndcg, "sd": None}}
        return {"label": "", "metrics": values, "cut": 0, "settings": None}

    gains = {"dns": (0.11, 0.22), "lfm-w": (0.33, 0.44), "dns-top": (0.55, 0.66)}  # over each, by F1 and by NDCG
    against = {name: {"relative": {"f1@10": f1, "ndcg@10": ndcg}, "p": 0.5} for name, (f1, ndcg) in gains.items()}
    log = {
        "rows": {"dns": row(0.3, 0.1), "lfm-w": row(0.2, 0.2), "vins": row(0.4, 0.4), "dns-top": row(0.9, 0.9)},
        "order": ["dns-top", "vins", "lfm-w", "dns"],
        "best_baseline": "lfm-w",
        "second_baseline": "dns",
        "ours_against": against,
    }
    page = EXPERIMENTS["table2"].markdown({"logs": {"a": log}})
    assert "| VINS against the best baseline | +11.0 % | +44.0 %, p 0.500 |" in page
    assert "| VINS against the second | +33.0 % | +22.0 %, p 0.500 |" in page


# ------------------------------------------------------------------------------------------------------- Figure 4


def test_figure_4_says_what_a_rank_counts():
    found = {name: [1.0, 2.0, 3.0] for name in ("rank", "psi", "psi_simulated", "psi_kappa_64", "ranks_off")}
    page = EXPERIMENTS["figure4"].markdown({"logs": {"a": {**found, "Z": 1234.4, "beta": 0.75}}})
    assert "an item counts as pi, its degree to the power of beta (0.75)" in page
    assert "more than there are: a 1,234." in page


# ------------------------------------------------------------------------------------------------------- the page


def page_of(tmp_path, settings, command="", **observations):
    """The page of a study of Figure 3 and Table 1, by the observations of its logs."""
    logs = {name: {"min_user": 5, "interactions": many} for name, many in observations.items()}
    facts = {"command": command, "settings": asdict(settings), "logs": logs}
    results = {name: {"title": name, "logs": {}, "facts": facts} for name in ("table1", "figure3")}
    return write_page(results, tmp_path / "index.md").read_text()


SMALL = "**This study is too small to conclude from**"


@pytest.mark.parametrize(
    ("settings", "command", "is_small"),
    [
        (StudySettings(), "vitalrank paper all", False),
        (StudySettings.quick(), "", True),
        (StudySettings.quick(seeds=5, trials=12, epochs=120), "vitalrank paper all --quick --seeds 5", True),
        (StudySettings(seeds=1), "vitalrank paper all --seeds 1", True),
    ],
)
def test_the_page_says_when_a_study_is_too_small(tmp_path, settings, command, is_small):
    assert (SMALL in page_of(tmp_path, settings, command, mine=100)) is is_small


def test_logs_of_the_papers_size_are_not_called_stand_ins(tmp_path):
    study = StudySettings()
    assert "**The logs here are not the paper's own**" in page_of(tmp_path, study, yelp=667_532, mine=100)
    assert "not the paper's" not in page_of(tmp_path, study, steam=648_000)
    some = page_of(tmp_path, study, steam=648_202, yelp=667_532)
    assert "**Of the logs here yelp is not the paper's own**" in some
