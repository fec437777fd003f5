"""Table 1, Figure 2 and Figure 4: what follows from the logs alone."""

from __future__ import annotations

import numpy as np

from vitalrank.analysis import imbalance, rank_bias, rank_bias_simulated
from vitalrank.paper.experiment import Data
from vitalrank.paper.logs import Source, filtered
from vitalrank.paper.study import Study
from vitalrank.samplers.proposals import degree_weights

BETAS = tuple(round(0.1 * step, 1) for step in range(11))
BIAS_BETA = 0.75
_RANKS = 25
_ROUNDS = 20_000


def statistics(study: Study, source: Source) -> Data:
    """Table 1: size and sparsity of each log."""
    found = filtered(source).statistics
    return {
        "users": found.users,
        "items": found.items,
        "observations": found.observations,
        "sparsity": found.sparsity,
        "item_gini": found.item_gini,
        "max_item_degree": found.item_degree[1.0],
        "min_user": source.min_user,
        "min_item": source.min_item,
    }


def imbalance_by_beta(study: Study, source: Source) -> Data:
    """Figure 2: largest and smallest imbalance value of static sampling, and whether degree orders the values."""
    log = filtered(source)
    values = [imbalance(log, beta) for beta in BETAS]
    return {
        "beta": list(BETAS),
        "max": [float(found.max()) for found in values],
        "min": [float(found.min()) for found in values],
        "ordered": [share_in_order(log.item_degree, found) for found in values],
    }


def share_in_order(degree: np.ndarray, values: np.ndarray) -> float:
    """Share of neighbouring degrees, smaller to larger, between which the value grows: 1 is Theorem 1.

    Examples
    --------
    >>> share_in_order(np.array([1, 2, 3]), np.array([0.1, 0.3, 0.2]))
    0.5
    """
    _, first = np.unique(degree, return_index=True)
    steps = np.diff(values[first])
    return float(np.mean(steps > 0)) if len(steps) else 1.0


def bias_by_rank(study: Study, source: Source) -> Data:
    """Figure 4: the bias of the rank guessed from one search, by the formula and by trial."""
    Z = float(degree_weights(filtered(source), BIAS_BETA).sum(dtype=np.float64))
    ranks = np.unique(np.geomspace(1.0, Z, _RANKS).round(3).clip(1.0, Z))
    psi = rank_bias(ranks, Z)
    return {
        "Z": Z,
        "beta": BIAS_BETA,
        "rank": ranks.tolist(),
        "psi": psi.tolist(),
        "psi_simulated": rank_bias_simulated(ranks, Z, rounds=_ROUNDS).tolist(),
        "psi_kappa_64": rank_bias_simulated(ranks, Z, rounds=_ROUNDS, kappa=64).tolist(),
        "ranks_off": (psi * ranks).tolist(),
    }
