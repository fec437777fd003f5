"""The experiments by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from typing import TYPE_CHECKING

from vitalrank.errors import SettingError
from vitalrank.paper import cost_tables, costs, facts, markdown, quality
from vitalrank.paper.experiment import Data, Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _figure(name: str) -> Callable[[Data], Figure]:
    """A drawing of that name; matplotlib is loaded when it is drawn."""

    def draw(data: Data) -> Figure:
        figure: Figure = getattr(import_module("vitalrank.paper.figures"), name)(data)
        return figure

    return draw


_ALL = (
    Experiment("table1", "Statistics of the logs", facts.statistics, markdown.statistics),
    Experiment(
        "figure2", "Largest and smallest imbalance value by beta",
        facts.imbalance_by_beta, markdown.imbalance_by_beta, _figure("imbalance_by_beta"),
    ),
    Experiment(
        "figure3", "Item vectors in the plane, Uniform and VINS",
        quality.pictures, markdown.pictures, _figure("pictures"), quality.pictured_studies,
        needs=quality.PICTURED,
    ),
    Experiment(
        "figure4", "Bias of the estimated rank", facts.bias_by_rank, markdown.bias_by_rank, _figure("bias_by_rank")
    ),
    Experiment("table2", "Quality by sampler", quality.scores, markdown.scores, _figure("scores"), quality.studies),
    Experiment(
        "table3", "Tries by epoch",
        quality.tries_by_epoch, markdown.tries_by_epoch, _figure("tries_by_epoch"), quality.long_runs,
        shared=quality.epochs_shown, needs=quality.SEARCHERS,
    ),
    Experiment(
        "table4", "Seconds of an epoch",
        costs.seconds_per_epoch, cost_tables.seconds_per_epoch, _figure("seconds_per_epoch"),
        quality.searches, costs.timed_tasks, costs.how_timed, needs=costs.TIMED,
    ),
    Experiment(
        "table5", "Quality by size of the buffer",
        costs.by_buffer, cost_tables.by_buffer, _figure("by_buffer"), costs.buffer_tasks,
        shared=costs.buffer_sizes, needs=quality.SEARCHERS,
    ),
    Experiment(
        "figure5", "Largest imbalance value by epoch",
        quality.imbalance_by_epoch, markdown.imbalance_by_epoch, _figure("largest_imbalance"), quality.studies,
        needs=quality.TRACKED,
    ),
    Experiment(
        "figure6", "Smallest imbalance value by epoch",
        quality.imbalance_by_epoch, markdown.imbalance_by_epoch, _figure("smallest_imbalance"), quality.studies,
        needs=quality.TRACKED,
    ),
    Experiment(
        "figure7", "Seconds of an epoch by model",
        costs.by_model, cost_tables.seconds_by_model, _figure("seconds_by_model"), costs.model_tasks,
        needs=costs.MODEL_SAMPLERS,
    ),
    Experiment(
        "figure8", "F1@10 by model", costs.by_model, cost_tables.by_model, _figure("f1_by_model"), costs.model_tasks,
        needs=costs.MODEL_SAMPLERS,
    ),
    Experiment(
        "figure9", "NDCG@10 by model", costs.by_model, cost_tables.by_model, _figure("ndcg_by_model"),
        costs.model_tasks, needs=costs.MODEL_SAMPLERS,
    ),
    Experiment(
        "variations", "VINS with one thing changed",
        costs.by_variation, cost_tables.by_variation, plan=costs.variation_tasks, needs=(quality.OURS,),
    ),
)  # fmt: skip
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
ALL = "all"


def find_experiments(name: str, methods: Collection[str] | None = None) -> list[Experiment]:
    """The experiment of that name, or all of them that have something to show of these methods.

    Examples
    --------
    >>> [experiment.title for experiment in find_experiments("table3")]
    ['Tries by epoch']
    >>> [experiment.name for experiment in find_experiments("all", methods=["itemknn"])]
    ['table1', 'figure2', 'figure4', 'table2']
    """
    found = _named(name)
    useful = [one for one in found if methods is None or not one.needs or set(one.needs) & set(methods)]
    if not useful:
        raise SettingError(f"{name} shows nothing of {', '.join(methods or ())}; it needs {_any(found[0].needs)}.")
    return useful


def _any(names: Collection[str]) -> str:
    """Names with an "or"."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _named(name: str) -> list[Experiment]:
    if name == ALL:
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        raise SettingError(f"unknown experiment {name!r}; choose one of {', '.join(EXPERIMENTS)} or {ALL}.")
    return [EXPERIMENTS[name]]
