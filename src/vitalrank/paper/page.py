"""The page: claim by claim, what held on these logs; every sentence about results is made from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from vitalrank.comparing.outcomes import write_text
from vitalrank.comparing.tables import pipe_table
from vitalrank.paper import markdown
from vitalrank.paper.checks import SIGNIFICANT
from vitalrank.paper.claims import CLAIMS, STANDING, Claim, tally, verdict
from vitalrank.paper.contenders import CONTENDERS
from vitalrank.paper.experiment import Data
from vitalrank.paper.published import NDCG, published
from vitalrank.paper.quality import FORMS, OURS, RIVALS
from vitalrank.paper.searching import ENOUGH, PLENTY

NOTES = "notes.md"

_INTRO = """\
# The paper, reproduced

Yu, Pei, Zhang, Liang, Bai, Chawla and Zhang, "Addressing class-imbalance problem for personalized ranking",
arXiv 2005.09272, on other logs. **The logs here are not the paper's**: they stand in for them (smaller, or filtered
otherwise), so compare orders, ratios and signs, never absolute values.

This page is written by `vitalrank paper`; each verdict is computed from the data beside it.
"""

_PROTOCOLS = {
    "valid": "Protocol: each user's last 20 % are the test part, the last 10 % of the rest the validation part. Every "
    "contender is tuned on valid with the same number of trials ({trials}; {costly} for CML, PRIS, SA and the softmax "
    "losses, {model_trials} for IRGAN, FPMC and MARank): half of them spread over its own space, a quarter near the "
    "best, a quarter nearer still; of {enough} or more, the last third is bred from the best few instead. Of {plenty} "
    "or more, that is the first half; the second changes one setting of the best at a time, then breeds again. Then a "
    "run-off between the {finalists} best, at most half of all, with {runoff_seeds} seeds each; then {seeds} seeds "
    "({model_seeds} for IRGAN, FPMC and MARank) with the winner, the best epoch by valid, test read once. A run with "
    "MF or CML has at most {epochs} epochs, its learning rate is {schedule}. LFM-W and VINS search their weight and "
    "buffer too. The paper has no validation part.",
    "paper": "Protocol: the paper's own. There is no validation part: settings ({trials} trials) and epoch are picked "
    "on the test part, so every figure is too good, for all contenders alike.",
}

_NOT_HERE = """\
## What is not here

- **In-batch softmax** shares a batch's positives as negatives. "softmax, negatives as in a batch" draws negatives from
  the same law (by degree) for each positive, leaves out what the user has seen, and needs no batch of a certain size;
  "sampled softmax" draws them uniformly. Both use the loss `softmax`.
- **SRNS** keeps a memory of candidates per user from step to step and favours those whose score varied; a sampler here
  depends on the vectors of the moment alone, so that draws can be repeated and runs resumed bit for bit.
- **MixGCF** makes negatives by mixing the vectors of positives and negatives: its negative is no item, so it has no id
  that a sampler could return.
- **L2 weighted by `w_ui`**: the engine's L2 is per occurrence, whatever the weight.
- IRGAN and CML are models of their own here, trained with their own losses.
"""


def write_page(results: Mapping[str, Data], path: Path) -> Path:
    """Write ``index.md`` from the data of the experiments that were run, and from ``notes.md`` beside it, if any."""
    parts = [_INTRO, *_protocol(results), *_notes(path.with_name(NOTES))]
    parts += [*_summary(results), *_standing(results), *_claims(results)]
    parts += [*_variations(results), *_experiments(results), _NOT_HERE]
    write_text(path, "\n".join(part.rstrip() + "\n" for part in parts))
    return path


def _notes(path: Path) -> list[str]:
    """What the one who ran the study has to say about it: the only words here that are not made from the data."""
    return [f"## About this run\n\n{path.read_text(encoding='utf-8')}"] if path.is_file() else []


def _protocol(results: Mapping[str, Data]) -> list[str]:
    facts = next((data["facts"] for name, data in results.items() if name == "table2"), None)
    facts = facts or next((data["facts"] for data in results.values()), None)
    if facts is None:
        return []
    settings = facts["settings"]
    logs = ", ".join(f"{name} ({log['min_user']}-core)" for name, log in facts["logs"].items())
    costly = settings.get("costly_trials") or "as many"
    protocol = _PROTOCOLS[settings["protocol"]].format(**settings, costly=costly, enough=ENOUGH, plenty=PLENTY)
    if not facts.get("searched", True):
        whose = _taken(facts)
        protocol += f" **Settings that an earlier study had found were taken from it**{whose}, not searched again."
    return [protocol, f"Logs: {logs}.\n\nCommand: `{facts['command']}`"]


def _taken(facts: Data) -> str:
    """Whose settings were taken, unless it is everybody's."""
    taken = facts.get("taken", {})
    if all(set(names) == set(facts["contenders"]) for names in taken.values()):
        return ""
    labels = {log: ", ".join(CONTENDERS[name].label for name in names) for log, names in taken.items() if names}
    return " for " + "; ".join(f"{whose} on {log}" for log, whose in labels.items())


def _summary(results: Mapping[str, Data]) -> list[str]:
    """One line a claim."""
    rows = []
    for claim in CLAIMS:
        findings = claim.findings(results)
        held = "" if findings is None else tally(findings)
        rows.append([claim.text, claim.section, f"**{verdict(findings)}**", held])
    return ["## The claims", pipe_table(["claim", "section", "verdict", "logs"], rows)]


def _standing(results: Mapping[str, Data]) -> list[str]:
    """Where VINS stands, with means over the logs."""
    if "table2" not in results:
        return []
    logs = results["table2"]["logs"].values()
    lines = []
    for other in (*RIVALS, "dns-top", "softmax", "softmax-pop", "vins-exact"):
        lines += _gain(OURS, other, [log["ours_against"] for log in logs])
    for form in FORMS:
        for rival in RIVALS:
            lines += _gain(form, rival, [log["forms_against"].get(form, {}) for log in logs])
    lines += [line for claim in STANDING for line in _detail(claim, results)]
    lines += _agreement(results["table2"])
    return ["## Where VINS stands", "\n".join(lines)]


def _gain(one: str, other: str, found: Sequence[Data]) -> list[str]:
    """What one contender gains over another, on average over the logs that have both."""
    gains = [against[other] for against in found if other in against]
    if not gains:
        return []
    values = [gain["relative"]["ndcg@10"] for gain in gains]
    sure = sum(gain["p"] < SIGNIFICANT and gain["relative"]["ndcg@10"] > 0 for gain in gains)
    return [
        f"- {CONTENDERS[one].label} against {CONTENDERS[other].label}: {markdown.percent(float(np.mean(values)))} "
        f"NDCG@10 on average over {len(gains)} log(s), better with p < {SIGNIFICANT} on {sure}."
    ]


def _agreement(table: Data) -> list[str]:
    """How alike the order is to the paper's."""
    said = []
    for log, found in table["logs"].items():
        theirs = published(NDCG, log)
        shared = [name for name in found["order"] if name in theirs]
        if len(shared) > 2:
            ours = [found["rows"][name]["metrics"]["ndcg@10"]["mean"] for name in shared]
            value = float(spearmanr(ours, [theirs[name] for name in shared]).statistic)
            said.append(f"{log} {value:+.2f} ({len(shared)})")
    what = "Rank correlation of the contenders' order with the paper's (and how many, Item-KNN counted)"
    return [f"- {what}: {', '.join(said)}."] if said else []


def _claims(results: Mapping[str, Data]) -> list[str]:
    lines = [line for claim in CLAIMS for line in _detail(claim, results)]
    return ["## Claim by claim", "\n".join(lines)]


def _detail(claim: Claim, results: Mapping[str, Data]) -> list[str]:
    findings = claim.findings(results)
    if findings is None:
        return [f"- {claim.text} *not run*"]
    marks = "; ".join(f"{found.log}: {'yes' if found.held else 'no'}, {found.said}" for found in findings)
    counted = f", {tally(findings)}" if any(found.with_knn not in (None, found.held) for found in findings) else ""
    return [f"- {claim.text} **{verdict(findings)}**{counted} ({marks})."]


def _variations(results: Mapping[str, Data]) -> list[str]:
    """What a change of one setting does, and the best one on each log."""
    if "variations" not in results:
        return []
    lines = []
    for log, rows in results["variations"]["logs"].items():
        if rows:
            best = max(rows, key=lambda name: rows[name]["mean"])
            lines.append(f"- {log}: best *{best}*, {markdown.percent(rows[best]['relative'])} against VINS as tuned.")
    table = markdown.by_variation(results["variations"])
    return [
        "## Variations",
        "NDCG@10 on valid of VINS with its tuned settings, one of them changed; in brackets, against the tuned one.",
        table,
        "\n".join(lines),
    ]


def _experiments(results: Mapping[str, Data]) -> list[str]:
    lines = [f"- [{data['title']}]({name}.md) ([data]({name}.json))" for name, data in results.items()]
    return ["## Tables and figures", "\n".join(lines)]
