"""What a warm start takes of an earlier model, or of its run folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from vitalrank._util.typing import Array
from vitalrank.checkpoint import read_folder
from vitalrank.errors import SettingError
from vitalrank.models.base import Recommender
from vitalrank.models.loading import load
from vitalrank.training.warm_start import WarmStart

if TYPE_CHECKING:
    from vitalrank.models.trainable import TrainableModel

_STATE = "training.state."


def warm_start_of(model: TrainableModel, start: Recommender | str | os.PathLike[str]) -> WarmStart:
    """The values of an earlier model, copied, since the new training may overwrite them; checked to be of this kind."""
    state: dict[str, Array] = {}
    step, settings = 0, None
    if isinstance(start, str | os.PathLike):
        saved = read_folder(start)
        state = {name.removeprefix(_STATE): array for name, array in saved.tensors.items() if name.startswith(_STATE)}
        step = _step_of(saved.meta.get("training"))
        settings = saved.meta["settings"]  # those of modules of one's own are not known before they are attached
        start = load(start)
    if not isinstance(start, Recommender):
        raise SettingError(f"start is of type {type(start).__name__}; give a fitted model or its run folder.")
    if type(start) is not type(model) or (settings or start.settings()) != model.settings():
        raise SettingError(f"start is {start!r}, and this is {model!r}; give an earlier model of the same settings.")
    if model.tables is None:
        raise SettingError(f"{type(model).__name__} has no warm start; fit it anew on the whole log.")
    values = {name: np.array(array) for name, array in start.tensors().items()}
    return WarmStart(start.train, values, model.tables, start.history, state, step, model.padding_rows())


def _step_of(training: object) -> int:
    step = training.get("step") if isinstance(training, Mapping) else None
    return step if isinstance(step, int) and step >= 0 else 0
