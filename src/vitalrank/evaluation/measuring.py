"""Full-catalogue evaluation: every item is ranked for every test user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import is_count, parse_metric
from vitalrank._util.threads import limited
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.distributed.ranges import own_part
from vitalrank.errors import DataError, SettingError
from vitalrank.evaluation.beyond import BeyondAccuracy
from vitalrank.evaluation.grouping import GROUPINGS
from vitalrank.evaluation.overlap import warn_of_training_rows
from vitalrank.evaluation.results import COVERAGE, Evaluation, Lists
from vitalrank.evaluation.significance import percentile_interval, resampled_means
from vitalrank.interactions import Interactions, check_same_ids, logs_of
from vitalrank.kernels.cpu.ranking.top_n import mark_hits
from vitalrank.metrics import BEYOND, METRICS, harmonic_mean
from vitalrank.ranking.scorers import Scorer, check_scorer
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
    categories: Sequence[Any] | None = None,
    group: ProcessGroup | None = None,
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
        More logs whose items are left out, such as the validation set.
    by
        ``"degree"``: each metric among users of one training degree: below 10, 10 to 19, 20 to 49, 50 to 99, and
        100 or more.
        ``"popularity"``: precision, recall and NDCG as sums of what hits on head, middle and tail items contribute;
        the three add up to the whole. Items are sorted by training degree, highest first (equal: lower internal id
        first); an item belongs to the head if the items before it hold less than a third of the training
        interactions, to the middle if less than two thirds, else to the tail.
    metrics
        Names out of precision, recall, f1, ndcg, hit_rate, map, mrr, coverage, which are the default, and beyond
        accuracy novelty, diversity, serendipity, calibration, gini; ``"all"`` for all of them. ``f1`` is the
        harmonic mean of the averaged precision and recall. See :mod:`vitalrank.metrics`.
    bootstrap
        Resamples of the users for 95 % percentile intervals; 0 for none. Coverage and Gini have no interval.
    seed
        Of the bootstrap.
    threads
        Threads to use; all by default. The result does not depend on it.
    device
        Where to rank: ``"cpu"``, ``"cuda"`` or ``"auto"``; by default where the model's vectors lie.
    categories
        What calibration counts: one label for each item of ``train.item_ids``, or a list of labels, ``""`` for none,
        as ``ItemTable.values("genre", train.item_ids)`` gives them. By default the head, middle and tail of the
        items, as under ``by="popularity"``.
    group
        What :func:`vitalrank.distributed.join_group` gave: its ranks, which all call this, share the users; each gets
        the result of one process, to the last bit.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 1, 2, 2, 2, 3, 3, 3], [1, 2, 3, 1, 2, 4, 1, 3, 2])
    >>> train, test = log.split_last(0.2)
    >>> result = vr.evaluate(vr.MostPopular().fit(train), test, at=(1, 2), metrics=["recall", "ndcg"])
    >>> sorted(result)
    ['ndcg@1', 'ndcg@2', 'recall@1', 'recall@2']
    """
    check_scorer(model)
    check_same_ids(model.train, test, "test")
    warn_of_training_rows(model.train, test)
    settings = _Settings(at, by, metrics, bootstrap, seed, threads, device, categories, group or ProcessGroup())
    return _evaluate(model, test, exclude, settings)


@dataclass(frozen=True)
class _Settings:
    """What is measured, and where; the options of :func:`evaluate`."""

    at: int | Sequence[int]
    by: str | None = None
    metrics: str | Iterable[str] | None = None
    bootstrap: int = 0
    seed: int = 0
    threads: int | None = None
    device: str | None = None
    categories: Sequence[Any] | None = None
    group: ProcessGroup = field(default_factory=ProcessGroup)

    def check(self, names: Sequence[str]) -> None:
        """Refuse what cannot be measured."""
        if self.by is not None and self.by not in GROUPINGS:
            raise SettingError(f"by={self.by!r}: choose one of {', '.join(GROUPINGS)}.")
        rounds = self.bootstrap
        if not is_count(rounds, least=0) or rounds == 1 or rounds > _MOST_ROUNDS:
            raise SettingError(f"bootstrap={rounds!r}: give 0 for none, or 1000 or so (at most {_MOST_ROUNDS:,}).")
        if self.categories is not None and "calibration" not in names:
            raise SettingError("categories is for calibration: give metrics=[..., 'calibration'] too, or leave it out.")


def _evaluate(
    model: Scorer, test: Interactions, exclude: Interactions | Sequence[Interactions] | None, settings: _Settings
) -> Evaluation:
    lengths, names = _lengths(settings.at), metric_names(settings.metrics)
    settings.check(names)
    users = np.flatnonzero(np.diff(test.indptr))
    own = users[own_part(users, model.train.indptr, settings.group)]
    others = logs_of(exclude)
    beyond = BeyondAccuracy(names, lengths, model.train, others, own, settings.categories)
    lists = _rank(model, test, own, lengths, others, beyond, settings)
    result = Evaluation(lists, tuple(f"{name}@{n}" for n in lengths for name in names))
    if settings.by is not None:
        result.groups.update(GROUPINGS[settings.by](result, model.train))
    if settings.bootstrap:
        result.intervals.update(_intervals(result, settings.bootstrap, settings.seed))
    return result


# ---------------------------------------------------------------------------------------------------- the lists


def _rank(
    model: Scorer,
    test: Interactions,
    users: NDArray[np.int64],
    lengths: Sequence[int],
    exclude: Sequence[Interactions],
    beyond: BeyondAccuracy,
    settings: _Settings,
) -> Lists:
    relevant, threads = np.diff(test.indptr), settings.threads
    everybody, group = np.flatnonzero(relevant), settings.group
    if len(everybody) == 0:
        raise DataError("the test log is empty; split_last with a larger share.")
    wanted = test.csr
    longest = min(max(lengths), test.n_items)
    hits = np.empty((len(users), longest), np.bool_)
    shown = {n: np.zeros(test.n_items, np.bool_) for n in lengths}
    found = [np.zeros(0, np.int32)]
    for rows, items, _ in top_blocks(model, users, longest, exclude=exclude, threads=threads, device=settings.device):
        with limited(threads):
            mark_hits(items, users[rows], wanted.indptr, wanted.indices, hits[rows])
        found.append(items[hits[rows]].astype(np.int32))
        beyond.add(rows, items, hits[rows])
        for n, mask in shown.items():
            top = items[:, :n]
            mask[top[top >= 0]] = True
    group.barrier()  # users of one rank may take longer than those of another
    coverage = {n: float(group.all_gather_rows(mask[None]).any(0).mean()) for n, mask in shown.items()}
    beyond.join(group)
    hit = group.all_gather_rows(np.concatenate(found))
    return Lists(
        everybody, relevant[everybody], group.all_gather_rows(hits), hit, coverage, beyond.per_user, beyond.together
    )


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


def value_of(
    model: Scorer, held_out: Interactions, metric: str, threads: int | None = None, group: ProcessGroup | None = None
) -> float:
    """One metric, such as ``"ndcg@10"``, of a model on a held-out part; the ranks of a group share the users.

    Examples
    --------
    >>> import vitalrank as vr
    >>> train, test = vr.Interactions.from_arrays([1, 1, 2, 2], [7, 8, 7, 8]).split_last(0.5)
    >>> value_of(vr.MostPopular().fit(train), test, "hit_rate@1")
    1.0
    """
    name, length = parse_metric(metric)
    check_same_ids(model.train, held_out, "test")
    settings = _Settings(length, metrics=(name,), threads=threads, group=group or ProcessGroup())
    return float(_evaluate(model, held_out, None, settings)[metric])


def metric_names(metrics: str | Iterable[str] | None) -> list[str]:
    """The metrics of these names, all of them for None; SettingError for a name that there is not.

    Examples
    --------
    >>> metric_names("ndcg")
    ['ndcg']
    >>> metric_names("all")[-2:]
    ['calibration', 'gini']
    """
    usual = [*METRICS, COVERAGE]
    known = [*usual, *BEYOND]
    if isinstance(metrics, str):
        metrics = known if metrics == "all" else [metrics]
    names = usual if metrics is None else list(dict.fromkeys(metrics))
    for name in names:
        if name not in known:
            length = "; the length of the lists goes to at=" if "@" in str(name) else ""
            raise SettingError(f"unknown metric {name!r}{length}; choose from all, {', '.join(known)}.")
    return names
