"""Train a model anew on a whole log, for the epoch count that validation picked."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from vitalrank.config import SETTINGS
from vitalrank.errors import SettingError
from vitalrank.history import History, Record
from vitalrank.registry import SAMPLERS
from vitalrank.samplers.settings import Sampler


def refit_options(history: History, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``fit`` that repeat a training for as many epochs as it kept, with others on top.

    Under a schedule that depends on the number of epochs, the training is stopped where the other was picked, so that
    the learning rates are the same.

    Examples
    --------
    >>> history = History([{"epoch": 1}, {"epoch": 2}])
    >>> history.settings, history.best_epoch = {"lr": 0.01, "seed": 3}, 1
    >>> refit_options(history, {"seed": 4})
    {'lr': 0.01, 'seed': 4, 'epochs': 1}
    """
    if not history.settings or len(history) == 0:
        raise SettingError("refit repeats an earlier training, and there was none; call fit(train, valid=...) first.")
    settings, kept = history.settings, history.best_epoch or len(history)
    if history.start is not None:  # repeat the first training, not the few epochs of an update
        settings, kept = history.start["settings"], history.start["epochs"]
    known = {name: value for name, value in settings.items() if name in SETTINGS}
    if "epochs" in options or known.get("epochs", kept) == kept:
        return {**known, "epochs": kept, **options}

    def stop(record: Record, model: object) -> bool:
        return bool(record["epoch"] >= kept)

    return {**known, **options, "callbacks": [*options.get("callbacks", ()), stop]}


def sampler_of(history: History) -> Sampler:
    """The sampler that a training shows in its history.

    Examples
    --------
    >>> history = History()
    >>> history.sampler = "DNS(candidates=4)"
    >>> sampler_of(history)
    DNS(candidates=4, top=1)
    """
    text = history.sampler or ""
    kinds = {entry.class_name: entry for entry in SAMPLERS.values()}
    try:
        call: Any = ast.parse(text, mode="eval").body
        settings = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
        found: Sampler = kinds[call.func.id].load()(**settings)
        return found
    except (SyntaxError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise SettingError(
            f"the sampler {text or 'of the training'} cannot be made from its name; give sampler=."
        ) from error
