"""The tables of seconds and tries, as Markdown."""

from __future__ import annotations

from typing import Any

from vitalrank.comparing.tables import pipe_table, seconds_text
from vitalrank.paper.earlier import label_of, mark_of
from vitalrank.paper.experiment import Data
from vitalrank.paper.markdown import GAP, percent, spread_text
from vitalrank.paper.methods import METHODS, MODEL_LABELS
from vitalrank.paper.published import RELATIVE_TIME, published


def seconds_per_epoch(data: Data) -> str:
    """Table 4, with the paper's multiples."""
    rows = []
    for name in METHODS:
        cells: list[str] = []
        for log, found in data["logs"].items():
            row = found.get(name)
            theirs = published(RELATIVE_TIME, log).get(name)
            times = "" if row is None or row["relative"] is None else f" ({row['relative']:.2f}x)"
            cells.append(GAP if row is None else seconds_text(row["seconds"]) + times + mark_of(row))
            cells.append(GAP if theirs is None else f"{theirs:.2f}x")
        if any(cell != GAP for cell in cells[::2]):
            rows.append([METHODS[name].label, *cells])
    header = ["sampler", *(text for log in data["logs"] for text in (f"{log}, seconds", "paper"))]
    beside = " or ".join(map(str, _workers(data["logs"]) or [data["workers"]]))
    note = (
        f"Seconds: mean of the first {data['epochs']} epochs but one, {beside} run(s) side by side, with "
        "tuned settings. A multiple is of Uniform's seconds in the same study."
    )
    return f"{pipe_table(header, rows)}\n\n{note}"


def _workers(found: object) -> list[int]:
    """The number of runs that ran in parallel, where known."""
    if not isinstance(found, dict) or found.get("earlier"):
        return []
    own = {found["workers"]} if "seconds" in found and "workers" in found else set()
    return sorted(own.union(*map(_workers, found.values())))


def by_buffer(data: Data) -> str:
    """Table 5: one row per log, metric and sampler."""
    rows = []
    for name, log in data["logs"].items():
        for metric in ("f1@10", "ndcg@10"):
            for sampler, found in log.items():
                cells = [found.get(str(size)) for size in data["sizes"]]
                text = [GAP if cell is None else spread_text(cell[metric]) for cell in cells]
                rows.append([f"{name} {metric}", METHODS[sampler].label, *text])
    return pipe_table(["", "sampler", *map(str, data["sizes"])], rows)


def by_model(data: Data) -> str:
    """Figures 7 to 9 as one table."""
    rows = []
    for name, log in data["logs"].items():
        for model, samplers in log.items():
            for found in samplers.values():
                times = [seconds_text(found[spent]["mean"]) for spent in ("seconds", "training_seconds")]
                rows.append([
                    name, MODEL_LABELS[model], label_of(found), *times,
                    spread_text(found["f1@10"]), spread_text(found["ndcg@10"]),
                ])  # fmt: skip
    return pipe_table(["log", "model", "sampler", "seconds an epoch", "of training", "F1@10", "NDCG@10"], rows)


def seconds_by_model(data: Data) -> str:
    """Figure 7, which is no clean measurement."""
    most = max(_workers(data["logs"]), default=None)
    shared = "" if most is None else f", up to {most} of them,"
    beside = "one after the other" if most == 1 else f"side by side{shared} on a machine that they shared"
    note = (
        f"Seconds are of the trainings that Figures 8 and 9 show too: {beside}, with their draws counted. They say "
        "what such a study takes; Table 4 is the timing."
    )
    return f"{by_model(data)}\n\n{note}"


def by_variation(data: Data) -> str:
    """One line a variation, one column a log."""
    names: dict[str, Any] = {name: None for log in data["logs"].values() for name in log}
    rows = []
    for name in names:
        cells = []
        for log in data["logs"].values():
            found = log.get(name)
            cells.append(GAP if found is None else f"{spread_text(found)} ({percent(found['relative'])})")
        rows.append([name, *cells])
    return pipe_table(["VINS", *data["logs"]], rows)
