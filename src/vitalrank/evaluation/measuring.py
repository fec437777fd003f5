"""Full-catalogue evaluation: every item is ranked for every test user."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from vitalrank._util.checks import is_count, parse_metric
from vitalrank._util.threads import limited
from vitalrank.errors import DataError, SettingError
from vitalrank.evaluation.grouping import GROUPINGS
from vitalrank.evaluation.results import COVERAGE, Evaluation, Lists
from vitalrank.evaluation.significance import percentile_interval, resampled_means
from vitalrank.interactions import Interactions, check_same_ids, logs_of
from vitalrank.kernels.cpu.ranking.top_n import mark_hits
from vitalrank.metrics import METRICS, harmonic_mean
from vitalrank.ranking.scorers import Scorer
from vitalrank.ranking.top_n import top_blocks

_MOST_ROUNDS = 1_000_000  # of a bootstrap


def evaluate(
    model: Scorer,
    test: Interactions,
    at: int | Sequence[int] = (5, 10, 20),
    *,
    exclude: Interactions | Sequence[Interactions] | None = None,
    by: str | None = None,
    metrics: str | Iterable[str] | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    threads: int | None = None,
    device: str | None = None,
) -> Evaluation:
    """Rank the whole catalogue for every user of ``test`` and measure the top of each list.

    The model's training items are always left out of the lists. Users without test items are left out of the
    averages. Equal scores: lower internal id first. Memory does not grow with users times items.

    Parameters
    ----------
    model
        A fitted recommender.
    test
        The held-out part of the split the model was trained on.
    at
        Lengths N of the lists.
    exclude
        More logs whose items are left out, such as the validation part.
    by
        ``"degree"``: each metric among users of one training degree: below 10, 10 to 19, 20 to 49, 50 to 99, and
        100 or more.
        ``"popularity"``: precision, recall and NDCG as sums of what hits on head, middle and tail items contribute;
        the three add up to the whole. Items are sorted by training degree, highest first (equal: lower internal id
        first); an item belongs to the head if the items before it hold less than a third of the training
        interactions, to the middle if less than two thirds, else to the tail.
    metrics
        Names out of precision, recall, f1, ndcg, hit_rate, map, mrr, coverage; all by default. ``f1`` is the
        harmonic mean of the averaged precision and recall.
    bootstrap
        Resamples of the users for 95 % percentile intervals; 0 for none. Coverage has no interval.
    seed
        Of the bootstrap.
    threads
        Threads to use; all by default. The result does not depend on it.
    device
        Where to rank: ``"cpu"``, ``"cuda"`` or ``"auto"``; by default where the model's vectors lie.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 1, 2, 2, 2, 3, 3, 3], [1, 2, 3, 1, 2, 4, 1, 3, 2])
    >>> train, test = log.split_last(0.2)
    >>> result = vr.evaluate(vr.MostPopular().fit(train), test, at=(1, 2), metrics=["recall", "ndcg"])
    >>> sorted(result)
    ['ndcg@1', 'ndcg@2', 'recall@1', 'recall@2']
    """
    if not isinstance(model, Scorer):
        raise SettingError(f"model is of type {type(model).__name__}; give the model first: evaluate(model, test).")
    check_same_ids(model.train, test, "test")
    _warn_of_training_rows(model.train, test)
    return _evaluate(model, test, at, exclude, by, metrics, bootstrap, seed, threads, device)


def _evaluate(
    model: Scorer,
    test: Interactions,
    at: int | Sequence[int],
    exclude: Interactions | Sequence[Interactions] | None = None,
    by: str | None = None,
    metrics: str | Iterable[str] | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    threads: int | None = None,
    device: str | None = None,
) -> Evaluation:
    lengths = _lengths(at)
    names = metric_names(metrics)
    if by is not None and by not in GROUPINGS:
        raise SettingError(f"by={by!r}: choose one of {', '.join(GROUPINGS)}.")
    if not is_count(bootstrap, least=0) or bootstrap == 1 or bootstrap > _MOST_ROUNDS:
        raise SettingError(f"bootstrap={bootstrap!r}: give 0 for none, or 1000 or so (at most {_MOST_ROUNDS:,}).")
    lists = _rank(model, test, lengths, logs_of(exclude), threads, device)
    result = Evaluation(lists, tuple(f"{name}@{n}" for n in lengths for name in names))
    if by is not None:
        result.groups.update(GROUPINGS[by](result, model.train))
    if bootstrap:
        result.intervals.update(_intervals(result, bootstrap, seed))
    return result


def _warn_of_training_rows(train: Interactions, test: Interactions) -> None:
    """Training items are left out of the lists, so that test rows among them can never be hit."""
    both = int(train.csr.multiply(test.csr).nnz)
    if both:
        warnings.warn(
            f"{both:,} of {len(test):,} test rows are in the training log and count as misses, since training items "
            "are left out of the lists; evaluate on a part that was held out.",
            stacklevel=3,
        )


# ---------------------------------------------------------------------------------------------------- the lists


def _rank(
    model: Scorer,
    test: Interactions,
    lengths: Sequence[int],
    exclude: Sequence[Interactions],
    threads: int | None,
    device: str | None,
) -> Lists:
    relevant = np.diff(test.indptr)
    users = np.flatnonzero(relevant)
    if len(users) == 0:
        raise DataError("the test log is empty; split_last with a larger share.")
    wanted = test.csr
    longest = min(max(lengths), test.n_items)
    hits = np.empty((len(users), longest), np.bool_)
    shown = {n: np.zeros(test.n_items, np.bool_) for n in lengths}
    found = []
    for rows, items, _ in top_blocks(model, users, longest, exclude=exclude, threads=threads, device=device):
        with limited(threads):
            mark_hits(items, users[rows], wanted.indptr, wanted.indices, hits[rows])
        found.append(items[hits[rows]].astype(np.int32))
        for n, mask in shown.items():
            top = items[:, :n]
            mask[top[top >= 0]] = True
    coverage = {n: float(mask.mean()) for n, mask in shown.items()}
    return Lists(users, relevant[users], hits, np.concatenate(found), coverage)


# ---------------------------------------------------------------------------------------------------- intervals


def _intervals(result: Evaluation, rounds: int, seed: int) -> dict[str, tuple[float, float]]:
    columns = [name for name in result.per_user if parse_metric(name)[0] != "f1"]
    means = resampled_means(np.stack([result.per_user[name] for name in columns], axis=1), rounds, seed)
    samples = dict(zip(columns, means.T, strict=True))
    for length in result.lists.coverage:
        samples[f"f1@{length}"] = harmonic_mean(samples[f"precision@{length}"], samples[f"recall@{length}"])
    return {name: percentile_interval(samples[name]) for name in result if name in samples}


# ---------------------------------------------------------------------------------------------------- arguments


def _lengths(at: int | Sequence[int]) -> list[int]:
    lengths = list(at) if isinstance(at, Iterable) else [at]
    if not lengths or not all(map(is_count, lengths)):
        raise SettingError(f"at={at!r}: give list lengths from 1 up, such as (5, 10, 20).")
    return sorted(set(map(int, lengths)))


def value_of(model: Scorer, held_out: Interactions, metric: str, threads: int | None = None) -> float:
    """One metric, such as ``"ndcg@10"``, of a model on a held-out part.

    Examples
    --------
    >>> import vitalrank as vr
    >>> train, test = vr.Interactions.from_arrays([1, 1, 2, 2], [7, 8, 7, 8]).split_last(0.5)
    >>> value_of(vr.MostPopular().fit(train), test, "hit_rate@1")
    1.0
    """
    name, length = parse_metric(metric)
    check_same_ids(model.train, held_out, "test")
    return float(_evaluate(model, held_out, length, metrics=(name,), threads=threads)[metric])


def metric_names(metrics: str | Iterable[str] | None) -> list[str]:
    """The metrics of these names, all of them for None; SettingError for a name that there is not.

    Examples
    --------
    >>> metric_names("ndcg")
    ['ndcg']
    """
    known = [*METRICS, COVERAGE]
    names = known if metrics is None else [metrics] if isinstance(metrics, str) else list(metrics)
    for name in names:
        if name not in known:
            raise SettingError(f"unknown metric {name!r}; choose from {', '.join(known)}.")
    return names
