"""Which candidates fit the machine and the time."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

from vitalrank._util.memory import available_memory
from vitalrank.comparing import Method, planning
from vitalrank.config import TrainConfig
from vitalrank.datasets import synthetic
from vitalrank.interactions import Interactions
from vitalrank.models.ease import EASE
from vitalrank.training import Trainer

_SHARE = 0.1  # of the budget that one fit of EASE, or so many epochs of a torch model, may take
_EPOCHS = 20
_TORCH = {"lightgcn": 2.0, "sasrec": 1.0}  # models in torch: the power of the log's length with which an epoch grows
_ROWS, _FEWEST_ROWS = 20_000, 2_000  # of the log on which an epoch is timed, as the budget allows
_LONG = 600.0  # seconds of a budget that allows the most
_LEAST = 2e-5  # seconds of a row in an epoch of a torch model, on any machine
_MEMORY = 0.8  # of what is free


# By label what was decided: a form ("as it is", "sparse" or "none"), and why.
Decisions = MutableMapping[str, list[str]]


def fitting(
    method: Method, config: TrainConfig, train: Interactions, seconds: float, decided: Decisions
) -> tuple[Method | None, str]:
    """The method, one in its place that needs less, or None; and why, if it is not the method itself.

    What is ``decided`` already stays so, and what is not is added: times that are measured again may differ.
    """
    if method.label not in decided:
        decided[method.label] = list(_decision(method, config, train, seconds))
    form, why = decided[method.label]
    if form == "none":
        return None, why
    return (planning.sparse_form(method), why) if form == "sparse" else (method, why)


def _decision(method: Method, config: TrainConfig, train: Interactions, seconds: float) -> tuple[str, str]:
    model = method.make()
    if isinstance(model, EASE):
        return _ease_decision(method, model, train, seconds)
    power = _TORCH.get(type(model).__name__.lower())
    if power is None:
        return "as it is", ""
    least = _EPOCHS * _LEAST * len(train)
    needed = _epochs_seconds(method, config, train, power, seconds) if least <= _SHARE * seconds else least
    if needed <= _SHARE * seconds:
        return "as it is", ""
    return "none", f"{_EPOCHS} epochs in torch may take a tenth of the {seconds:.0f} s, and would take more"


def _ease_decision(method: Method, model: EASE, train: Interactions, seconds: float) -> tuple[str, str]:
    """EASE as it is, else the sparse form."""
    why = _too_much(model, train, seconds)
    if not why:
        return "as it is", ""
    is_small = model.neighbours is not None or train.n_items <= planning.NEIGHBOURS
    sparse = planning.sparse_form(method).make()
    assert isinstance(sparse, EASE)
    if is_small or _too_much(sparse, train, seconds):
        return "none", why
    return "sparse", f"{why}; the sparse form with {planning.NEIGHBOURS} neighbours takes its place"


def _too_much(model: EASE, train: Interactions, seconds: float) -> str:
    cost, free = model.estimate(train), available_memory()
    if free is not None and cost.bytes > _MEMORY * free:
        return f"needs about {cost.bytes / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
    if cost.seconds > _SHARE * seconds:
        return f"a single fit takes about {cost.seconds:.0f} s"
    return ""


def _epochs_seconds(method: Method, config: TrainConfig, train: Interactions, power: float, seconds: float) -> float:
    """Seconds of the epochs that a model in torch needs at least, from one on a log so small that a budget bears it."""
    rows = min(_ROWS, max(_FEWEST_ROWS, int(_ROWS * seconds / _LONG)))
    toy = synthetic(users=rows // 20, items=rows // 40, interactions=rows, seed=0)
    short = replace(method.config(config), epochs=2, schedule="constant")
    model: Any = method.make()
    history = Trainer(short, progress=False).fit(model, toy, method.sampler)
    return float(_EPOCHS * history[-1]["seconds"] * max(1.0, len(train) / len(toy)) ** power)
