"""Data of the experiments as figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from vitalrank.paper.earlier import label_of, mark_of
from vitalrank.paper.experiment import Data
from vitalrank.paper.methods import METHODS, MODEL_LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_WIDE, _HIGH = 4.2, 2.6  # inches of a panel
_COLUMNS = 2  # of panels
_CLASSES = {0: ("top 25 %", "#d62728"), 1: ("middle", "#2ca02c"), 2: ("bottom 25 %", "#1f77b4")}
_OURS = "#d62728"
_KNOWN = {"vins": _OURS, "uni": "#7f7f7f", "dns": "#2ca02c", "lfm-w": "#1f77b4", "pop": "#ff7f0e", "lfm-d": "#9467bd"}
_OTHERS = ("#8c564b", "#e377c2", "#bcbd22", "#17becf", "#aec7e8", "#98df8a", "#ffbb78", "#c5b0d5", "#c49c94")
_BASELINE, _BEYOND = "#9aa5b1", "#ccd3da"  # bars


def _colour(name: str) -> str:
    """The same for a method in every figure."""
    others = [other for other in METHODS if other not in _KNOWN]
    return _KNOWN[name] if name in _KNOWN else _OTHERS[others.index(name) % len(_OTHERS)]


def _bar_colour(name: str) -> str:
    return _OURS if name == "vins" else _BEYOND if METHODS[name].beyond else _BASELINE


def _log_axis(axis: Axis) -> None:
    """Logarithmic, labelled at 1, 2 and 5 of each decade."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _panels(titles: Sequence[str]) -> tuple[Figure, list[Any]]:
    """A figure, and an empty panel for each title."""
    columns = min(_COLUMNS, max(len(titles), 1))
    rows = -(-max(len(titles), 1) // columns)
    figure = Figure(figsize=(_WIDE * columns, _HIGH * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(titles) :]:
        axis.set_visible(False)
    for title, axis in zip(titles, axes, strict=False):
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=7)
        for side in (axis.xaxis, axis.yaxis):
            side.label.set_size(8)
        axis.grid(alpha=0.25, linewidth=0.5)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    return figure, list(axes[: len(titles)])


def _with_legend(figure: Figure, axes: list[Any]) -> Figure:
    """One legend below all panels."""
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, fontsize=7, frameon=False)
    return figure


def _by_log(panel: Callable[[Any, Any], None]) -> Callable[[Data], Figure]:
    """A figure of a panel for each log, drawn by ``panel(axis, the log's data)``."""

    def draw(data: Data) -> Figure:
        logs = data["logs"]
        figure, axes = _panels(list(logs))
        for axis, log in zip(axes, logs.values(), strict=True):
            panel(axis, log)
        return _with_legend(figure, axes)

    return wraps(panel)(draw)


@_by_log
def imbalance_by_beta(axis: Axes, log: Data) -> None:
    """Figure 2: solid the largest, dashed the smallest value."""
    axis.plot(log["beta"], log["max"], "-", color=_OURS, label="largest", linewidth=1.5)
    axis.plot(log["beta"], log["min"], "--", color=_KNOWN["lfm-w"], label="smallest", linewidth=1.5)
    axis.set_yscale("log")
    _log_axis(axis.yaxis)
    axis.set(xlabel="beta", ylabel="imbalance value")


@_by_log
def bias_by_rank(axis: Axes, log: Data) -> None:
    """Figure 4: the bias ratio by rank."""
    axis.plot(log["rank"], log["psi"], color=_OURS, label="psi(r), formula", linewidth=1.5)
    axis.plot(log["rank"], log["psi_simulated"], ".", color="black", label="by trial", markersize=4)
    axis.plot(log["rank"], log["psi_kappa_64"], ":", color=_KNOWN["lfm-w"], label="by trial, at most 64 draws")
    axis.set_xscale("log")
    axis.set_yscale("symlog", linthresh=0.1)
    axis.set_ylim(bottom=0)
    axis.set(xlabel="rank r, an item counted as pi", ylabel="relative bias")


def pictures(data: Data) -> Figure:
    """Figure 3: Uniform and VINS side by side for each log."""
    shown = [(f"{log}: {METHODS[name].label}", found[name]) for log, found in data["logs"].items() for name in found]
    figure, axes = _panels([title for title, _ in shown])
    for axis, (_, found) in zip(axes, shown, strict=True):
        for band, (label, colour) in _CLASSES.items():
            inside = [point for point, c in zip(found["points"], found["degree_class"], strict=True) if c == band]
            axis.scatter([x for x, _ in inside], [y for _, y in inside], s=4, color=colour, label=label, alpha=0.7)
        axis.set(xticks=[], yticks=[])
        axis.set_xlabel(f"{found['method']}; clustering {found['clustering']['mean']:.2f}")
    return _with_legend(figure, axes)


def largest_imbalance(data: Data) -> Figure:
    """Figure 5."""
    return _imbalance(data, "max", "largest imbalance value")


def smallest_imbalance(data: Data) -> Figure:
    """Figure 6."""
    return _imbalance(data, "min", "smallest imbalance value")


def _imbalance(data: Data, side: str, label: str) -> Figure:
    @_by_log
    def panel(axis: Axes, log: Data) -> None:
        for name, found in log.items():
            wide, style = (2.0, "-") if name in ("vins", "uni") else (1.0, "--" if METHODS[name].beyond else "-")
            axis.plot(found["epoch"], found[side], style, color=_colour(name), label=label_of(found), linewidth=wide)
        axis.set_yscale("log")
        _log_axis(axis.yaxis)
        axis.set(xlabel="epoch", ylabel=label)

    return panel(data)


@_by_log
def scores(axis: Axes, log: Data) -> None:
    """Table 2 as bars, best on top."""
    order = log["order"][::-1]
    metrics = [log["rows"][name]["metrics"]["ndcg@10"] for name in order]
    axis.barh(
        [label_of(log["rows"][name]) for name in order], [found["mean"] for found in metrics],
        xerr=[found["sd"] or 0.0 for found in metrics], color=[_bar_colour(name) for name in order],
        error_kw={"lw": 1},
    )  # fmt: skip
    axis.set_xlabel("NDCG@10 on test")


@_by_log
def tries_by_epoch(axis: Axes, log: Data) -> None:
    """Table 3 as lines."""
    for name, found in log.items():
        means = [cell["mean"] for cell in found.values()]
        axis.plot([int(epoch) for epoch in found], means, "o-", color=_colour(name), label=METHODS[name].label)
    axis.set(xlabel="epoch", ylabel="tries")


@_by_log
def seconds_per_epoch(axis: Axes, log: Data) -> None:
    """Table 4 as bars."""
    shown = {name: row for name, row in log.items() if row["relative"] is not None}
    labels = [label_of(row) for row in shown.values()][::-1]
    times = [row["relative"] for row in shown.values()][::-1]
    axis.barh(labels, times, color=[_bar_colour(name) for name in shown][::-1])
    axis.set_xlabel("seconds of an epoch, Uni = 1")
    axis.set_xscale("log")
    _log_axis(axis.xaxis)


@_by_log
def by_buffer(axis: Axes, log: Data) -> None:
    """Table 5 as lines."""
    for name, found in log.items():
        means = [cell["ndcg@10"]["mean"] for cell in found.values()]
        spread = [cell["ndcg@10"]["sd"] or 0.0 for cell in found.values()]
        sizes = [int(size) for size in found]
        axis.errorbar(sizes, means, spread, fmt="o-", color=_colour(name), label=METHODS[name].label, capsize=2)
    axis.set_xscale("log", base=2)
    axis.set(xlabel="buffer size kappa", ylabel="NDCG@10")


def seconds_by_model(data: Data) -> Figure:
    """Figure 7."""
    return _by_model(data, "seconds", "seconds an epoch", log_scale=True)


def f1_by_model(data: Data) -> Figure:
    """Figure 8."""
    return _by_model(data, "f1@10", "F1@10")


def ndcg_by_model(data: Data) -> Figure:
    """Figure 9."""
    return _by_model(data, "ndcg@10", "NDCG@10")


def _by_model(data: Data, quantity: str, label: str, log_scale: bool = False) -> Figure:
    @_by_log
    def panel(axis: Axes, log: Data) -> None:
        models = [model for model, samplers in log.items() if samplers]
        names = list(dict.fromkeys(name for model in models for name in log[model]))
        wide = 0.8 / max(len(names), 1)
        for place, name in enumerate(names):
            there = [(x, log[model][name][quantity]) for x, model in enumerate(models) if name in log[model]]
            axis.bar(
                [x + place * wide for x, _ in there], [found["mean"] for _, found in there], wide,
                yerr=[found["sd"] or 0.0 for _, found in there], color=_colour(name), label=METHODS[name].label,
                error_kw={"lw": 1},
            )  # fmt: skip
        labels = [MODEL_LABELS[model] + mark_of(next(iter(log[model].values()))) for model in models]
        axis.set_xticks([x + 0.4 - wide / 2 for x in range(len(models))], labels)
        axis.set_ylabel(label)
        if log_scale:
            axis.set_yscale("log")
            _log_axis(axis.yaxis)

    return panel(data)
