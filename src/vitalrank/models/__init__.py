"""The models, by name; each is imported when first asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vitalrank._util.lazy import lazy_names
from vitalrank.checkpoint import read_folder
from vitalrank.errors import SettingError, StorageError
from vitalrank.registry import MODELS

if TYPE_CHECKING:
    from vitalrank.models.als import ALS
    from vitalrank.models.base import Recommender
    from vitalrank.models.cml import CML
    from vitalrank.models.custom import TorchRecommender
    from vitalrank.models.dot import DotRecommender
    from vitalrank.models.ease import EASE
    from vitalrank.models.fpmc import FPMC
    from vitalrank.models.irgan import IRGAN
    from vitalrank.models.itemknn import ItemKNN
    from vitalrank.models.lightgcn import LightGCN
    from vitalrank.models.marank import MARank
    from vitalrank.models.mf import MF
    from vitalrank.models.mostpopular import MostPopular
    from vitalrank.models.sasrec import SASRec

__all__ = [
    "ALS",
    "CML",
    "EASE",
    "FPMC",
    "IRGAN",
    "MF",
    "DotRecommender",
    "ItemKNN",
    "LightGCN",
    "MARank",
    "MostPopular",
    "Recommender",
    "SASRec",
    "TorchRecommender",
    "is_trained",
    "load",
    "model_class",
    "model_names",
]


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


def is_trained(model: object) -> bool:
    """Whether a model, or its class, is trained step by step with a sampler.

    Examples
    --------
    >>> is_trained(model_class("mf")), is_trained(model_class("mostpopular"))
    (True, False)
    """
    from vitalrank.models.trainable import TrainableModel

    return issubclass(model if isinstance(model, type) else type(model), TrainableModel)


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


_BASES = {"Recommender": "models.base:Recommender", "DotRecommender": "models.dot:DotRecommender"}
__getattr__, __dir__ = lazy_names(__name__, _BASES | {entry.class_name: entry.target for entry in MODELS.values()})
