"""The models, by name; each is imported when first asked for."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vitalrank.checkpoint import read_folder
from vitalrank.errors import SettingError, StorageError

if TYPE_CHECKING:
    from vitalrank.models.base import Recommender

# Class name -> module. ``model.json`` names the class, so a name once released stays.
_HOMES = {
    "MostPopular": "mostpopular",
    "ItemKNN": "itemknn",
    "MF": "mf",
    "FPMC": "fpmc",
    "MARank": "marank",
    "CML": "cml",
    "IRGAN": "irgan",
    "TorchRecommender": "own",
}
_BASES = {"Recommender": "base", "DotRecommender": "base"}

__all__ = [*_HOMES, *_BASES, "is_trained", "load", "model_class", "model_names"]


def model_names() -> list[str]:
    """Names of the model classes.

    Examples
    --------
    >>> "ItemKNN" in model_names()
    True
    """
    return list(_HOMES)


def model_class(name: str) -> type[Recommender]:
    """The class of that name; capitals do not matter.

    Examples
    --------
    >>> model_class("mostpopular").__name__
    'MostPopular'
    """
    for known, module in _HOMES.items():
        if known.lower() == name.lower():
            found: type[Recommender] = getattr(_module(module, known), known)
            return found
    raise SettingError(f"unknown model {name!r}; choose one of {', '.join(_HOMES)}.")


def is_trained(model: Any) -> bool:
    """Whether a model, or its class, is trained step by step with a sampler.

    Examples
    --------
    >>> is_trained(model_class("mf")), is_trained(model_class("mostpopular"))
    (True, False)
    """
    return hasattr(model, "build")


def load(path: str | os.PathLike[str]) -> Recommender:
    """The model that ``model.save(path)`` wrote.

    Examples
    --------
    >>> import tempfile, vitalrank as vr
    >>> folder = tempfile.mkdtemp() + "/popular"
    >>> vr.MostPopular().fit(vr.Interactions.from_arrays([1, 1, 2], [7, 8, 7])).save(folder)
    >>> vr.load(folder)
    MostPopular()
    """
    saved = read_folder(path)
    try:
        cls = model_class(str(saved.meta["class"]))
    except (KeyError, SettingError) as error:
        raise StorageError(f"{path}: holds no model of a known class ({error}).") from error
    return cls.from_saved(saved, path)


def __getattr__(name: str) -> Any:
    homes = _HOMES | _BASES
    if name not in homes:
        raise AttributeError(f"module 'vitalrank.models' has no attribute {name!r}")
    return getattr(_module(homes[name], name), name)


def _module(module: str, wanted: str) -> Any:
    try:
        return import_module(f"vitalrank.models.{module}")
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise SettingError(f"{wanted} needs torch: pip install 'vitalrank[torch]'.") from missing
