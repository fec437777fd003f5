"""Which items the lists show: popularity bias and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitalrank.analysis.subsampling import some
from vitalrank.errors import SettingError
from vitalrank.evaluation import popularity_band
from vitalrank.interactions import Interactions
from vitalrank.interactions.stats import gini
from vitalrank.models.base import Recommender
from vitalrank.ranking.top_n import top_blocks


@dataclass(frozen=True)
class Exposure:
    """What a list of ``n`` for each user shows. A model that copied the log would have 1/3, 1/3, 1/3."""

    n: int
    users: int
    mean_degree: float  # of the items shown, each as often as it is shown
    log_degree: float  # the same for the items of the training log
    head: float  # shares of the places
    middle: float
    tail: float
    coverage: float  # share of the catalogue that someone is shown
    gini: float  # of how often each item is shown: 0 all alike, 1 a single item


def exposure(
    model: Recommender,
    n: int = 10,
    *,
    exclude: Sequence[Interactions] = (),
    sample: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Exposure:
    """Count how often each item is among the ``n`` best unseen ones of a user.

    Parameters
    ----------
    model
        A fitted recommender.
    n
        Length of the lists.
    exclude
        More logs whose items are left out of the lists, beside the training log.
    sample, seed
        Users to ask, drawn at random if there are more; None asks all.
    threads
        At most so many threads.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3, 3], ["x", "y", "x", "y", "x", "z"])
    >>> shown = exposure(vr.MostPopular().fit(log), n=1)
    >>> round(shown.mean_degree, 2), round(shown.coverage, 2)
    (1.33, 0.67)
    """
    if n < 1:
        raise SettingError(f"n={n}: lists need at least one place.")
    train = model.train
    users = some(train.n_users, sample, seed)
    times = np.zeros(train.n_items, np.int64)  # each item is shown
    for _, items, _ in top_blocks(model, users, min(n, train.n_items), exclude=exclude, threads=threads):
        times += np.bincount(items[items >= 0], minlength=train.n_items)
    places = max(int(times.sum()), 1)
    degree = train.item_degree
    share = np.bincount(popularity_band(train), weights=times, minlength=3) / places
    return Exposure(
        n=n,
        users=len(users),
        mean_degree=float(times @ degree / places),
        log_degree=float(degree @ degree / max(len(train), 1)),
        head=float(share[0]),
        middle=float(share[1]),
        tail=float(share[2]),
        coverage=float(np.mean(times > 0)),
        gini=gini(times),
    )
