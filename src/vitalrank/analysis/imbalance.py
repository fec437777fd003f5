"""Vertex-level imbalance: how often an item is a positive for each time it is a negative."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_beta
from vitalrank._util.typing import Values
from vitalrank.history import Record
from vitalrank.interactions import Interactions
from vitalrank.samplers import BoundSampler, Counts, Sampler
from vitalrank.samplers.proposals import degree_weights

QUANTILES = {"min": 0.0, "q25": 0.25, "median": 0.5, "q75": 0.75, "max": 1.0}


def imbalance(train: Interactions, beta: float = 0.0) -> Values:
    r"""The imbalance value that one negative per positive from ``pi(i) = d_i^beta`` gives each item, as ``(I,)``.

    .. math:: IV(i) = \frac{d_i}{p(i)\,(|E| - d_i)}, \qquad p(i) = \frac{\pi(i)}{\sum_j \pi(j)}

    An item that every interaction is with has no chance to be a negative: its value is infinite.

    References
    ----------
    Yu et al., "Addressing class-imbalance problem for personalized ranking", arXiv 2005.09272, Theorem 1.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 2, 3, 3], ["x", "x", "x", "y"])
    >>> imbalance(log, beta=0.0).round(2).tolist()
    [6.0, 0.67]
    >>> imbalance(log, beta=1.0).round(2).tolist()
    [4.0, 1.33]
    """
    check_beta(beta)
    weights = degree_weights(train, beta).astype(np.float64)
    degree = train.item_degree
    with np.errstate(divide="ignore"):
        return np.asarray(degree / (weights / weights.sum() * (len(train) - degree)), np.float64)


def counted_imbalance(counts: Counts) -> Values:
    """Times as positive over times as negative of the items that were positives; never a negative counts as once.

    Counting the missing negative as one keeps the largest value finite: it is then a lower bound.

    Examples
    --------
    >>> counts = Counts(3)
    >>> counts.positive[:], counts.negative[:] = [6, 2, 0], [3, 0, 1]
    >>> counted_imbalance(counts).tolist()
    [2.0, 2.0]
    """
    met = counts.positive > 0
    return np.asarray(counts.positive[met] / np.maximum(counts.negative[met], 1), np.float64)


def summary(values: NDArray[Any] | Sequence[float]) -> dict[str, float]:
    """Smallest, quartiles and largest of some values; empty without values.

    Examples
    --------
    >>> summary([1.0, 2.0, 3.0, 4.0, 9.0])
    {'min': 1.0, 'q25': 2.0, 'median': 3.0, 'q75': 4.0, 'max': 9.0}
    >>> summary([1.0, float("inf")])["median"]
    1.0
    """
    if not len(values):
        return {}
    # Nothing lies halfway to infinity: where that is among the values, the lower neighbour is taken.
    method: Any = "linear" if np.isfinite(values).all() else "lower"
    found = np.quantile(values, list(QUANTILES.values()), method=method)
    return dict(zip(QUANTILES, found.tolist(), strict=True))


class Counted:
    """A sampler whose draws are counted, epoch by epoch, while a model trains with it.

    Pass it to ``fit`` as the sampler and its ``on_epoch`` as a callback: each record of the history then has
    ``imbalance``, a dict with min, quartiles and max of the imbalance values counted in that epoch and, as
    ``never``, the share of the items trained on that were no negative at all; and ``tries_sd``, the standard deviation
    of the tries.

    Parameters
    ----------
    sampler
        The sampler to train with. The draws are the same as without counting.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> sampler = Counted(vr.Popularity(beta=1.0))
    >>> model = vr.MF(dim=8).fit(log, sampler, epochs=2, callbacks=[sampler.on_epoch], progress=False)
    >>> sorted(model.history[-1]["imbalance"])
    ['max', 'median', 'min', 'never', 'q25', 'q75']
    """

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self._bound: BoundSampler | None = None

    def __repr__(self) -> str:
        # The trainer knows a run by this, and counting changes nothing about it.
        return repr(self.sampler)

    def bind(self, train: Interactions, seed: int = 0, **options: Any) -> BoundSampler:
        """As the sampler's own ``bind``, with counts."""
        self._bound = self.sampler.bind(train, seed, **{**options, "count": True})
        return self._bound

    def on_epoch(self, record: Record, model: object) -> None:
        """Add the counts of the epoch to its record, and start again."""
        if self._bound is None or self._bound.counts is None:
            return
        counts = self._bound.counts
        met = counts.positive > 0
        never = float(np.mean(counts.negative[met] == 0)) if met.any() else 0.0
        record["imbalance"] = {**summary(counted_imbalance(counts)), "never": never}
        record["tries_sd"] = counts.tries_deviation
        counts.clear()

    def follow(self, record: Record, model: object) -> None:
        """The former name of :meth:`on_epoch`."""
        warnings.warn("Counted.follow is now Counted.on_epoch.", DeprecationWarning, stacklevel=2)
        self.on_epoch(record, model)
