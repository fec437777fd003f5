"""What the pages of a study say of its data."""

from __future__ import annotations

import pytest

from vitalrank.paper.registry import EXPERIMENTS


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
