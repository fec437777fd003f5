"""The page: which claims held on these logs; every sentence about results is generated from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from vitalrank._util.files import write_text
from vitalrank.comparing.tables import pipe_table
from vitalrank.paper import cost_tables, markdown
from vitalrank.paper.checks import SIGNIFICANT
from vitalrank.paper.claims import CLAIMS, STANDING, Claim, tally, verdict
from vitalrank.paper.experiment import Data
from vitalrank.paper.methods import METHODS
from vitalrank.paper.preface import introduction, protocol
from vitalrank.paper.published import NDCG, published
from vitalrank.paper.quality import FORMS, OURS, RIVALS

ANSWER = "answer.md"
NOTES = "notes.md"

_NOT_HERE = """\
## What is not here

- **SRNS** keeps a memory of candidates per user from step to step and favours those whose score varied; a sampler here
  depends on the vectors of the moment alone, so that draws can be repeated and runs resumed bit for bit.
- **L2 weighted by `w_ui`**: the engine's L2 is per occurrence, whatever the weight.
- IRGAN and CML are models of their own here, trained with their own losses.
"""


def write_page(results: Mapping[str, Data], path: Path) -> Path:
    """Write ``index.md`` from the data of the experiments that were run: the answer, the claims, then the details.

    ``answer.md`` and ``notes.md`` beside it, where there are any, are written by hand: the only sentences on the page
    that are not generated from the data.
    """
    answer, notes = (_written(path.with_name(name), title) for name, title in _BY_HAND)
    parts = [*introduction(results), *answer, *_summary(results), *protocol(results), *_standing(results)]
    parts += [*notes, *_claims(results), *_variations(results), *_experiments(results), _NOT_HERE]
    write_text(path, "\n".join(part.rstrip() + "\n" for part in parts))
    return path


_BY_HAND = ((ANSWER, "The answer"), (NOTES, "Notes on this run"))


def _written(path: Path, title: str) -> list[str]:
    return [f"## {title}\n\n{path.read_text(encoding='utf-8')}"] if path.is_file() else []


def _summary(results: Mapping[str, Data]) -> list[str]:
    """One row per claim; claims that were not checked are counted below."""
    found = [(claim, claim.findings(results)) for claim in CLAIMS]
    rows = [
        [claim.text, claim.section, f"**{verdict(findings)}**", tally(findings)]
        for claim, findings in found
        if findings is not None
    ]
    missing = len(found) - len(rows)
    table = [pipe_table(["claim", "section", "verdict", "logs"], rows)] if rows else []
    left = [f"{missing} of the paper's {len(found)} claims need experiments that were not run."] if missing else []
    return ["## The claims", *table, *left]


def _standing(results: Mapping[str, Data]) -> list[str]:
    """Where VINS stands, with means over the logs."""
    if "table2" not in results:
        return []
    logs = results["table2"]["logs"].values()
    rows = []
    for other in METHODS:
        rows += _gain(OURS, other, [log["ours_against"] for log in logs])
    for form in FORMS:
        for rival in RIVALS:
            rows += _gain(form, rival, [log["forms_against"].get(form, {}) for log in logs])
    header = ["", "against", "NDCG@10, mean over the logs", f"better with p < {SIGNIFICANT}"]
    table = [pipe_table(header, rows)] if rows else []
    lines = [line for claim in STANDING for line in _detail(claim, results)] + _agreement(results["table2"])
    said = [*table, *(["\n".join(lines)] if lines else [])]
    return ["## Where VINS stands", *said] if said else []


def _gain(one: str, other: str, found: Sequence[Data]) -> list[list[str]]:
    """What one method gains over another, on average over the logs that have both."""
    gains = [against[other] for against in found if other in against]
    if not gains:
        return []
    values = [gain["relative"]["ndcg@10"] for gain in gains]
    sure = sum(gain["p"] < SIGNIFICANT and gain["relative"]["ndcg@10"] > 0 for gain in gains)
    mean = markdown.percent(float(np.mean(values)))
    return [[METHODS[one].label, METHODS[other].label, mean, f"{sure} of {len(gains)} log(s)"]]


def _agreement(table: Data) -> list[str]:
    """How similar the order is to the paper's."""
    said = []
    for log, found in table["logs"].items():
        theirs = published(NDCG, log)
        shared = [name for name in found["order"] if name in theirs]
        if len(shared) > 2:
            ours = [found["rows"][name]["metrics"]["ndcg@10"]["mean"] for name in shared]
            value = float(spearmanr(ours, [theirs[name] for name in shared]).statistic)
            said.append(f"{log}: {value:+.2f} over {len(shared)}")
    what = "Rank correlation of the methods' order with the paper's, Item-KNN counted:"
    return [f"- {what}", *(f"    - {one}" for one in said)] if said else []


def _claims(results: Mapping[str, Data]) -> list[str]:
    lines = [line for claim in CLAIMS for line in _detail(claim, results)]
    return ["## Claim by claim", "\n".join(lines)] if lines else []


def _detail(claim: Claim, results: Mapping[str, Data]) -> list[str]:
    """A claim, and below it a line for each log; empty if its experiment was not run."""
    findings = claim.findings(results)
    if findings is None:
        return []
    counted = f", {tally(findings)}" if any(found.with_knn not in (None, found.held) for found in findings) else ""
    logs = [f"    - {found.log}: {'yes' if found.held else 'no'}, {found.said}" for found in findings]
    return [f"- {claim.text} **{verdict(findings)}**{counted}", *logs]


def _variations(results: Mapping[str, Data]) -> list[str]:
    """The effect of changing one setting, and the best change on each log."""
    if "variations" not in results:
        return []
    lines = []
    for log, rows in results["variations"]["logs"].items():
        if rows:
            best = max(rows, key=lambda name: rows[name]["mean"])
            lines.append(f"- {log}: best *{best}*, {markdown.percent(rows[best]['relative'])} against VINS as tuned.")
    table = cost_tables.by_variation(results["variations"])
    return [
        "## Variations",
        "NDCG@10 on valid of VINS with its tuned settings, one of them changed; in brackets, against the tuned one.",
        table,
        "\n".join(lines),
    ]


def _experiments(results: Mapping[str, Data]) -> list[str]:
    lines = [f"- [{data['title']}]({name}.md) ([data]({name}.json))" for name, data in results.items()]
    return ["## Tables and figures", "\n".join(lines)]
