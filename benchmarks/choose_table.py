"""The measured tables of docs/choose.md, made anew from the saved numbers of samplers.py, mf.py and quality.py.

    python benchmarks/choose_table.py

Nothing is measured here. A test fails while the page differs from the numbers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean, stdev
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "choose.md"
LOGS = ("amazon-cds", "yelp", "steam")
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


def tuned_runs() -> dict[tuple[str, str], list[Any]]:
    """Runs of the settings that were best on validation, among those run with three seeds, by log and sampler."""
    recipes: dict[tuple[str, str, str], dict[int, Any]] = {}
    for run in map(json.loads, (HERE / "quality.jsonl").read_text().splitlines()):
        recipe = json.dumps([run["settings"], run["training"]])
        recipes.setdefault((run["log"], run["sampler"], recipe), {})[run["seed"]] = run
    best: dict[tuple[str, str], list[Any]] = {}
    for (log, kind, _), seeds in recipes.items():
        runs = list(seeds.values())
        if len(runs) >= 3 and of(runs, "valid") > of(best.get((log, kind), []), "valid"):
            best[log, kind] = runs
    return best


def of(runs: list[Any], name: str) -> float:
    return mean(run[name] for run in runs) if runs else 0.0


def quality_table() -> str:
    """Test NDCG@10 and tries over the seeds of the tuned runs."""
    tuned = tuned_runs()
    kinds = {name: kind for name, kind in NAMES.items() if all((log, kind) in tuned for log in LOGS)}
    rows = ["| | " + " | ".join(f"[{name}](samplers/{name}.md)" for name in kinds) + " |"]
    rows.append("|---" * (len(kinds) + 1) + "|")
    for log in LOGS:
        runs = [tuned[log, kind] for kind in kinds.values()]
        spread = [stdev(run["test"] for run in seeds) for seeds in runs]
        cells = [f"{of(seeds, 'test'):.4f} ± {width:.4f}" for seeds, width in zip(runs, spread, strict=True)]
        rows.append(f"| {log}: NDCG@10 | " + " | ".join(cells) + " |")
        rows.append(f"| {log}: tries | " + " | ".join(f"{of(seeds, 'tries'):.1f}" for seeds in runs) + " |")
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
