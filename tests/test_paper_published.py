"""What is published follows from the data beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import mean

import pytest

from vitalrank.paper.claims import CLAIMS
from vitalrank.paper.page import ANSWER, NOTES, write_page
from vitalrank.paper.registry import EXPERIMENTS
from vitalrank.paper.running import page_of, read_all

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "docs" / "paper"
EQUAL = PUBLISHED / "equal"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_published_page_is_made_from_its_data(name):
    data = json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))
    assert (PUBLISHED / f"{name}.md").read_text(encoding="utf-8") == page_of(EXPERIMENTS[name], data)


def test_data_of_older_versions_make_a_page_of_their_own(tmp_path):
    data = json.loads((PUBLISHED / "figure2.json").read_text(encoding="utf-8"))
    del data["facts"]["settings"]["schedule"]
    (tmp_path / "figure2.json").write_text(json.dumps(data), encoding="utf-8")
    assert "its learning rate is ?" in write_page(read_all(tmp_path), tmp_path / "index.md").read_text()


def test_the_table_of_equal_budgets_is_made_from_its_data():
    data = json.loads((EQUAL / "table2.json").read_text(encoding="utf-8"))
    assert (EQUAL / "table2.md").read_text(encoding="utf-8") == page_of(EXPERIMENTS["table2"], data)


@pytest.mark.parametrize("folder", [PUBLISHED, EQUAL], ids=["paper", "equal"])
def test_the_page_of_claims_is_made_from_the_data(tmp_path, folder):
    for name in (ANSWER, NOTES):
        if (folder / name).exists():
            shutil.copy(folder / name, tmp_path)
    page = write_page(read_all(folder), tmp_path / "index.md")
    assert (folder / "index.md").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_a_page_counts_the_claims_that_nothing_was_run_for(tmp_path):
    results = read_all(PUBLISHED)
    alone = write_page({"figure2": results["figure2"]}, tmp_path / "index.md").read_text(encoding="utf-8")
    assert f"{len(CLAIMS) - 2} of the paper's {len(CLAIMS)} claims need experiments that were not run." in alone
    assert "not run*" not in alone
    assert "## Where VINS stands" not in alone


# ------------------------------------------------------------------------------- what answer.md says, from the data


def logs_of(name):
    return json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))["logs"].values()


def gains(one, other):
    """In per cent, log by log."""
    rows = [log["rows"] for log in logs_of("table2")]
    means = [[row[name]["metrics"]["ndcg@10"]["mean"] for name in (one, other)] for row in rows]
    return [100 * (mine / theirs - 1) for mine, theirs in means]


def losses(*names):
    return [-100 * log[name]["relative"] for log in logs_of("variations") for name in names]


def short_of_best(name):
    """What a buffer of 64 loses."""
    found = [[size["ndcg@10"]["mean"] for size in log[name].values()] for log in logs_of("table5")]
    held = [log[name]["64"]["ndcg@10"]["mean"] for log in logs_of("table5")]
    return [100 * (1 - value / max(values)) for value, values in zip(held, found, strict=True)]


def ratios(experiment, reading):
    return [reading(log["vins"]) / reading(log["lfm-w"]) for log in logs_of(experiment)]


def whole_runs(name):
    found = json.loads((ROOT / "benchmarks/whole.json").read_text(encoding="utf-8"))["logs"].values()
    return [log["against"]["LFM-W"]["VINS"]["60"][name] for log in found]


def span(values, digits=0):
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def test_the_answer_says_what_the_data_say():
    text = " ".join((PUBLISHED / ANSWER).read_text(encoding="utf-8").split())
    tries = [log["rows"]["vins"]["tries"]["mean"] / log["rows"]["lfm-w"]["tries"]["mean"] for log in logs_of("table2")]
    for words in (
        f"VINS is {span(gains('vins', 'uni'))} % above uniform negatives in NDCG@10 and "
        f"{mean(gains('vins', 'dns')):.1f} % above DNS",
        f"VINS is {mean(gains('vins', 'lfm-w')):.1f} % ahead on average",
        f"as published, it gains {mean(gains('vins', 'lfm-w-harmonic')):.1f} %",
        f"It looks at {span(tries, 2)} of LFM-W's candidates",
        f"an epoch takes {span(ratios('table4', lambda row: row['seconds']), 2)} of LFM-W's seconds",
        f"ends {span([100 * (value - 1) for value in whole_runs('test')], 1)} % above",
        f"{span(whole_runs('seconds'), 2)} of its time",
        f"L2 weight costs {span(losses('reg times 0.5', 'reg times 2'))} %",
        f"margin of 2 costs {span(losses('margin 2'))} %",
        f"costs {span(losses('beta 0 (uniform draws)'))} %, and 1 costs {span(losses('beta 1'))} %",
        f"VINS then loses {span(short_of_best('vins'), 1)} % against its best, LFM-W "
        f"{span(short_of_best('lfm-w'), 1)} %",
    ):
        assert words in text
