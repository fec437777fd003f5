"""Model classes by name, and saved models."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vitalrank.checkpoint import read_folder
from vitalrank.errors import SettingError, StorageError
from vitalrank.registry import MODELS

if TYPE_CHECKING:
    from vitalrank.models.base import Recommender


def model_names() -> list[str]:
    """Names of the model classes.

    Examples
    --------
    >>> "ItemKNN" in model_names()
    True
    """
    return [entry.class_name for entry in MODELS.values()]


def model_class(name: str) -> type[Recommender]:
    """The class of that name; capitals do not matter.

    Examples
    --------
    >>> model_class("mostpopular").__name__
    'MostPopular'
    """
    if name.lower() not in MODELS:
        raise SettingError(f"unknown model {name!r}; choose one of {', '.join(model_names())}.")
    found: type[Recommender] = MODELS[name.lower()].load()
    return found


def load(path: str | os.PathLike[str]) -> Recommender:
    """The model that ``model.save(path)`` wrote, or ``model.push("owner/name")``: ``vr.load("hf://owner/name")``.

    Examples
    --------
    >>> import tempfile, vitalrank as vr
    >>> folder = tempfile.mkdtemp() + "/popular"
    >>> vr.MostPopular().fit(vr.Interactions.from_arrays([1, 1, 2], [7, 8, 7])).save(folder)
    >>> vr.load(folder)
    MostPopular()
    """
    if isinstance(path, str) and path.startswith("hf://"):
        from vitalrank.models.hub import fetch

        path = fetch(path)
    saved = read_folder(path)
    try:
        cls = model_class(str(saved.meta["class"]))
    except (KeyError, SettingError) as error:
        raise StorageError(f"{path}: holds no model of a known class ({error}).") from error
    return cls.from_saved(saved, path)
