"""The models, by name; each is imported when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalrank._util.lazy import lazy_names
from vitalrank.models.loading import load, model_class, model_names
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
    from vitalrank.models.trainable import is_trained

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

_BASES = {
    "DotRecommender": "models.dot:DotRecommender",
    "Recommender": "models.base:Recommender",
    "is_trained": "models.trainable:is_trained",
}
__getattr__, __dir__ = lazy_names(__name__, _BASES | {entry.class_name: entry.target for entry in MODELS.values()})
