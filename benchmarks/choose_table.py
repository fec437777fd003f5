"""The measured tables of docs/choose.md, made anew from the saved numbers of samplers.py, mf.py and the paper's study.

    python benchmarks/choose_table.py

Nothing is measured here. A test fails while the page differs from the numbers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

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


TABLES = {"cost": cost_table, "epoch": epoch_table, "quality": quality_table}


def renewed(text: str) -> str:
    """The page with each table between its marks made anew."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
