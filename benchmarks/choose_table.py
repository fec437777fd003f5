"""The measured tables of docs/choose.md, made anew from the saved numbers of samplers.py, mf.py and the paper's study.

    python benchmarks/choose_table.py

Nothing is measured here. A test fails while the page differs from the numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "choose.md"
STUDY = HERE.parent / "docs" / "paper"
ALIKE = ("uni", "dns", "vins", "lfm-w")
# Name of the page: class, cheapest first.
NAMES = {
    "uni": "Uniform", "pop": "Popularity", "aobpr": "AOBPR", "dns": "DNS", "cml": "CML", "lfm-d": "LFMD",
    "vins": "VINS", "lfm-w": "LFMW", "pris": "PRIS", "sa": "SA", "irgan": "IRGAN",
}  # fmt: skip


def cost_table() -> str:
    """Seconds of sampling to those of Uniform, and candidates looked at, for each sampler."""
    measured = json.loads((HERE / "samplers.json").read_text())["yelp_size"]
    rows = ["| sampler | settings | candidates a positive | time to Uni's |", "|---|---|---|---|"]
    for name, kind in NAMES.items():
        settings = next(text for text in measured if text.startswith(f"{kind}("))
        found = measured[settings]
        short = re.sub(r"(\w+='[^']*'|\w+=None|\w+=False)(, )?", "", settings.partition("(")[2].rstrip(")")).strip(", ")
        times = found["time_to_uniform"]
        shown = f"{times:.1f}" if times < 100 else f"{times:,.0f}"
        rows.append(f"| [{name}](samplers/{name}.md) | {short or '-'} | {found['tries']:,.0f} | {shown} |")
    return "\n".join(rows)


def quality_table() -> str:
    """Test NDCG@10 and tries of the samplers that the study of the paper tuned with the same number of trials."""
    logs = json.loads((STUDY / "table2.json").read_text(encoding="utf-8"))["logs"]
    rows = ["| | " + " | ".join(f"[{name}](samplers/{name}.md)" for name in ALIKE) + " |", "|---" * 5 + "|"]
    for log, found in logs.items():
        told = [found["rows"][name] for name in ALIKE]
        scores = [row["metrics"]["ndcg@10"] for row in told]
        rows.append(f"| {log}: NDCG@10 | " + " | ".join(f"{s['mean']:.4f} ± {s['sd']:.4f}" for s in scores) + " |")
        rows.append(f"| {log}: tries | " + " | ".join(f"{row['tries']['mean']:.1f}" for row in told) + " |")
    return "\n".join(rows)


def epoch_table() -> str:
    """Seconds of whole epochs of matrix factorization at Yelp's size."""
    epochs = json.loads((HERE / "mf.json").read_text())["epoch"]
    base = epochs["Uniform, Adam"]["seconds"]
    rows = ["| sampler | tries | seconds an epoch | to Uni |", "|---|---|---|---|"]
    for name, label in (("uni", "Uniform, Adam"), ("vins", "VINS, Adam"), ("lfm-w", "LFM-W, Adam")):
        found = epochs[label]
        rows.append(
            f"| [{name}](samplers/{name}.md) | {found['tries']:.0f} | {found['seconds']:.1f} "
            f"| {found['seconds'] / base:.1f} |"
        )
    return "\n".join(rows)


SAID = """\
- **Look for hard negatives, then tune.** All three that do are above Uni on every log, by {over_uni} %. VINS and
  LFM-W are close: {over_lfm_w} % for VINS, {over_lfm_w_mean} on average, with {looked} of LFM-W's candidates. VINS is
  {over_harmonic_mean} % above LFM-W with WARP's weight, as it was published, and {over_dns_mean} % above DNS, both on
  average. A poor L2 or margin costs more than all of that.
- **Try no weight, and a buffer of your own.** Without a weight VINS won on {plain_vins} logs of four, LFM-W on
  {plain_lfm_w}; VINS with at most {kappa_vins} tries, LFM-W with {kappa_lfm_w} in place of 1,024:
  `--range weight=log2,harmonic,none --range kappa=32..1024:log`.
- **Let the learning rate fall**: `--schedule linear` with twice the rate. VINS in 60 such epochs takes {short_seconds}
  of the seconds of LFM-W's best length, with WARP's weight, and is {short_test} % from it on test. Where LFM-W's weight
  is searched too, it takes {short_searched_seconds} and is {short_searched_test} % from it; in 120 epochs
  {full_searched_seconds} and {full_searched_test} % (`benchmarks/whole.py`)."""


def said() -> str:
    """What the study and whole.py say; each figure is looked up here, so that none can grow old."""
    rows = [log["rows"] for log in json.loads((STUDY / "table2.json").read_text(encoding="utf-8"))["logs"].values()]
    runs = [log["against"] for log in json.loads((HERE / "whole.json").read_text())["logs"].values()]

    def gains(one: str, other: str) -> list[float]:
        means = [[row[name]["metrics"]["ndcg@10"]["mean"] for name in (one, other)] for row in rows]
        return [100 * (mine / theirs - 1) for mine, theirs in means]

    figures = {
        "over_uni": _range([gain for name in ("dns", "vins", "lfm-w") for gain in gains(name, "uni")], ".0f"),
        "over_lfm_w": _range(gains("vins", "lfm-w"), "+.1f"),
        "looked": _range([row["vins"]["tries"]["mean"] / row["lfm-w"]["tries"]["mean"] for row in rows], ".2f"),
    }
    for key, other in (("lfm_w", "lfm-w"), ("harmonic", "lfm-w-harmonic"), ("dns", "dns")):
        figures[f"over_{key}_mean"] = f"{fmean(gains('vins', other)):.1f}"
    for key, name in (("vins", "vins"), ("lfm_w", "lfm-w")):
        settings = [row[name]["settings"] for row in rows]
        figures[f"plain_{key}"] = str([chosen["weight"] for chosen in settings].count("none"))
        figures[f"kappa_{key}"] = _range([chosen["kappa"] for chosen in settings], "d")
    searched = "LFM-W, weight searched"
    for key, rival, epochs in (
        ("short", "LFM-W", "60"), ("short_searched", searched, "60"), ("full_searched", searched, "120"),
    ):  # fmt: skip
        ratios = [log[rival]["VINS"][epochs] for log in runs]
        figures[f"{key}_seconds"] = _range([found["seconds"] for found in ratios], ".2f")
        figures[f"{key}_test"] = _range([100 * (found["test"] - 1) for found in ratios], "+.1f")
    return SAID.format(**figures)


def _range(values: Sequence[float], shown: str) -> str:
    return f"{min(values):{shown}} to {max(values):{shown}}"


TABLES = {"cost": cost_table, "epoch": epoch_table, "quality": quality_table, "said": said}


def renewed(text: str) -> str:
    """The page with each table between its marks made anew."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
