"""The table and the picture of race.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

OURS, TICKS = "vitalrank VINS", (0.3, 1, 3, 10, 30, 100)
METHODS = (
    OURS, "LightFM WARP", "RecBole DNS", "RecBole BPR", "cornac BPR", "implicit BPR", "implicit ALS", "vitalrank EASE",
)  # fmt: skip
LIGHT = ("#D55E00", "#009E73", "#CC79A7", "#8C6BB1", "#8a8a8a", "#56B4E9", "#0072B2", "#b8860b")
DARK = ("#ff8f4d", "#3fc79a", "#e79ac8", "#b39ddb", "#9aa3b0", "#7cc7f5", "#5a9bf0", "#e6c229")
PICTURES: dict[str, dict[str, Any]] = {
    "race.png": {"colours": dict(zip(METHODS, LIGHT, strict=True)), "ink": "#1b1f24", "paper": "#ffffff"},
    "race-dark.png": {"colours": dict(zip(METHODS, DARK, strict=True)), "ink": "#d5dae1", "paper": "none"},
}
_HEAD = """# Quality against training seconds

NDCG@10 on test, of the run and the moment that are best on valid by then; training on all cores. Written by `race.py`,
whose first lines tell the protocol; settings and single runs are in `race.jsonl`."""
Line = dict[str, Any]
Curve = tuple[list[float], list[float]]  # seconds, NDCG@10 on test


def so_far(lines: list[Line]) -> dict[str, dict[str, Curve]]:
    """By log and method: what one has after so many seconds, picked on valid among all settings."""
    found: dict[str, dict[str, dict[str, Line]]] = {}
    for line in lines:
        if "valid" not in line:
            continue
        runs = found.setdefault(line["log"], {}).setdefault(line["method"], {})
        known = runs.get(str(line["settings"]))
        if known is None or line["others"] < known["others"]:
            runs[str(line["settings"])] = line
    return {
        log: {method: _best(list(runs.values())) for method, runs in methods.items()} for log, methods in found.items()
    }


def _best(runs: list[Line]) -> Curve:
    points = sorted(point for run in runs for point in zip(run["seconds"], run["valid"], run["test"], strict=True))
    seconds, shown, best = [], [], -1.0
    for second, valid, test in points:
        if valid > best:
            best = valid
            seconds.append(second)
            shown.append(test)
    return seconds, shown


def at(curve: Curve, second: float) -> float:
    """NDCG@10 of what one has then; not a number before the first model."""
    place = int(np.searchsorted(curve[0], second, side="right")) - 1
    return curve[1][place] if place >= 0 else float("nan")


def table(curves: dict[str, dict[str, Curve]], seconds: tuple[float, ...] = (1, 3, 5, 10, 15)) -> str:
    """NDCG@10 on test by the seconds spent; the last column is each method's best on valid, and when."""
    rows = []
    for log, found in curves.items():
        rows += [f"| {log} | {' | '.join(f'{second:g} s' for second in seconds)} | best, after |"]
        rows += ["|---" + "|---:" * (len(seconds) + 1) + "|"]
        for method, curve in sorted(found.items(), key=lambda one: -one[1][1][-1]):
            cells = [f"{at(curve, second):.4f}".replace("nan", "") for second in seconds]
            rows.append(f"| {method} | {' | '.join(cells)} | {curve[1][-1]:.4f}, {curve[0][-1]:.1f} s |")
        rows.append("")
    return "\n".join(rows)


def page(lines: list[Line], quiet: float) -> str:
    """race.md."""
    curves = so_far(lines)
    runs = {(line["log"], line["method"], str(line["settings"])): "" for line in lines}
    for line in lines:
        if line["others"] <= quiet:
            runs.pop((line["log"], line["method"], str(line["settings"])), None)
    names = ", ".join(sorted({f"{method} on {log}" for log, method, _ in runs}))
    noise = f"\nOther processes took more than {quiet:.0%} of the cores during runs of {names}.\n" if runs else ""
    return "\n\n".join((_HEAD, verdict(curves), table(curves) + noise)).rstrip() + "\n"


def verdict(curves: dict[str, dict[str, Curve]], since: float = 3.0) -> str:
    """Log by log, whether ours is the upper envelope from some second on, and who is above it meanwhile."""
    told = []
    for log, found in curves.items():
        seconds = sorted({since, *(second for curve in found.values() for second in curve[0] if second > since)})
        above: dict[str, list[float]] = {}
        for second in seconds:
            ours = at(found[OURS], second)
            for name, curve in found.items():
                if name != OURS and at(curve, second) > ours:
                    above.setdefault(name, []).append(second)
        misses = [
            f"{name} is above it from {times[0]:.1f} s on"
            + ("" if times[-1] == seconds[-1] else f" to {times[-1]:.1f} s")
            for name, times in above.items()
        ]
        told.append(f"- {log}: {'; '.join(misses) if misses else f'{OURS} is highest from {since:g} s on'}.")
    return "\n".join(told)


def draw(curves: dict[str, dict[str, Curve]], folder: Path) -> None:
    """A panel for each log, for pages on white and for those in dark mode."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    for name, look in PICTURES.items():
        inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
        grounds = ("axes.facecolor", "figure.facecolor", "savefig.facecolor")
        pyplot.rcParams.update({**dict.fromkeys(inked, look["ink"]), **dict.fromkeys(grounds, look["paper"])})
        pyplot.rcParams.update({"font.size": 13})
        rows = len(curves) // 2 + 1  # of two panels each, the last for the legend
        shape: dict[str, Any] = {"width_ratios": (1, 1) if len(curves) > 1 else (2.6, 1)}
        figure, axes = pyplot.subplots(rows, 2, figsize=(9, 3.7 * rows), dpi=160, layout="constrained", **shape)
        lines = {}
        for axis, (log, found) in zip(axes.flat, curves.items(), strict=False):
            lines |= _panel(axis, log, found, look["colours"])
        rest = axes.flat[-1]
        for axis in axes.flat[len(curves) :]:
            axis.axis("off")
        order = sorted(lines, key=lambda method: -_last(curves, method))  # as the lines end
        rest.legend([lines[method] for method in order], order, frameon=False, loc="center", fontsize=14)
        figure.supxlabel("training seconds on 2 cores", fontsize=14)
        figure.supylabel("NDCG@10 on test", fontsize=14)
        figure.savefig(folder / name)
        pyplot.close(figure)


def _last(curves: dict[str, dict[str, Curve]], method: str) -> float:
    """What a method ends with, as a mean over the logs."""
    return float(np.mean([found[method][1][-1] for found in curves.values() if method in found]))


def _panel(axis: Any, log: str, found: dict[str, Curve], colours: dict[str, str]) -> dict[str, Any]:
    """The lines of a log by method; one that stops before the end keeps what it has."""
    end = max(curve[0][-1] for curve in found.values())
    drawn = {}
    for method, (seconds, test) in found.items():
        is_ours = method == OURS
        width, height = (3.2, 3) if is_ours else (1.7, 2)
        (line,) = axis.plot(seconds, test, color=colours[method], linewidth=width, zorder=height)
        axis.plot(seconds[:1], test[:1], "o", color=colours[method], markersize=5, zorder=height)
        axis.plot([seconds[-1], end], [test[-1]] * 2, color=colours[method], linewidth=width / 2, linestyle=":")
        drawn[method] = line
    axis.set_xscale("log")
    axis.set_xticks(TICKS, [f"{second:g}" for second in TICKS])
    axis.minorticks_off()
    axis.set_xlim(0.15, end * 1.1)
    axis.set_ylim(0)
    axis.set_title(log, loc="left", fontsize=14)
    axis.spines[["top", "right"]].set_visible(False)
    return drawn
