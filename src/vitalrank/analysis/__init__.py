"""What training did to items of different popularity, as numbers: imbalance, norms, clustering, ranks, exposure."""

from vitalrank.analysis.advising import advice
from vitalrank.analysis.embeddings import (
    Clustering,
    Norms,
    Projection,
    degree_class,
    frequency_clustering,
    item_norms,
    project,
)
from vitalrank.analysis.exposures import Exposure, exposure
from vitalrank.analysis.imbalance import Counted, counted_imbalance, imbalance, summary
from vitalrank.analysis.ranks import rank_bias, rank_bias_series, rank_bias_simulated
from vitalrank.analysis.runs import Inspection, inspect_model

__all__ = [
    "Clustering",
    "Counted",
    "Exposure",
    "Inspection",
    "Norms",
    "Projection",
    "advice",
    "counted_imbalance",
    "degree_class",
    "exposure",
    "frequency_clustering",
    "imbalance",
    "inspect_model",
    "item_norms",
    "project",
    "rank_bias",
    "rank_bias_series",
    "rank_bias_simulated",
    "summary",
]
