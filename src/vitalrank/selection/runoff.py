"""The run-off: what valid cannot tell apart is compared on larger parts of everything but test."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from vitalrank.comparing import Method, Outcome
from vitalrank.comparing.results import paired_p
from vitalrank.config import TrainConfig
from vitalrank.interactions import Interactions
from vitalrank.selection.clock import Clock
from vitalrank.selection.contest import FOLDS, near_best
from vitalrank.selection.finals import Ranked, final_store, method_of, run_finals
from vitalrank.selection.results import TIE
from vitalrank.selection.trials import final_seconds, refit_seconds

Parts = dict[str, Interactions]
Measure = Callable[[str, Sequence[Method]], list[Outcome]]  # a fold's name and the methods -> their outcomes


def settled(
    ranked: Ranked,
    log: Interactions,
    share: float,
    config: TrainConfig,
    fixed: Collection[str],
    out: Path | None,
    clock: Clock,
) -> Ranked:
    """The ranking by valid with the winner in front; ``log`` is everything but test."""
    near = near_best(ranked)
    if len(near) < 2:
        return ranked
    folds = folds_of(log, share, config.seed)
    stores = {name: final_store(out, f"runoff-{name}") for name in folds}

    def measure(fold: str, methods: Sequence[Method]) -> list[Outcome]:
        return run_finals(methods, folds[fold], config, fixed, stores[fold], clock.note)

    def is_measured(method: Method) -> bool:
        store = stores["last"]
        return store is not None and store.has(method, config.seed)

    won = run_off(near, clock, config.metric, is_measured, measure)
    return [ranked[won], *ranked[:won], *ranked[won + 1 :]]


def folds_of(log: Interactions, share: float, seed: int) -> dict[str, Parts]:
    """Two ways to hold out a share of each user's rows: the last ones, and random ones.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> [len(parts["train"]) + len(parts["test"]) == len(log) for parts in folds_of(log, 0.2, 0).values()]
    [True, True]
    """
    splits = {"last": log.split_last(share), "random": log.split_random(share, seed=seed)}
    return {name: dict(zip(("train", "test"), split[:2], strict=True)) for name, split in splits.items()}


def run_off(near: Ranked, clock: Clock, metric: str, is_measured: Callable[[Method], bool], measure: Measure) -> int:
    """The place of the winner among candidates that valid cannot tell apart, as many as the time allows.

    All are compared on the last rows of the users. Those that a paired t-test cannot tell from the best there are
    compared on random rows, too: the best mean of both wins, each value as a share of the best one of its fold.
    """
    kept = _affordable(near, clock, is_measured)
    if len(kept) < 2:
        return 0
    methods = [method_of(*near[place]) for place in kept]
    last = measure("last", methods)
    first = max(last, key=lambda one: one.metrics[metric])
    tied = [at for at, one in enumerate(last) if one is first or paired_p(one.per_user, first.per_user) >= TIE]
    if len(tied) == 1:
        return kept[tied[0]]
    again = measure("random", [methods[at] for at in tied])
    shares = [_shares([last[at] for at in tied], metric), _shares(again, metric)]
    means = [sum(pair) for pair in zip(*shares, strict=True)]
    return kept[tied[means.index(max(means))]]


def _affordable(near: Ranked, clock: Clock, is_measured: Callable[[Method], bool]) -> list[int]:
    """Places of those whose run-off fits into the time that no winner's final and refit need."""
    left = clock.left() - max(final_seconds(*pair) + refit_seconds(*pair) for pair in near)
    kept = []
    for place, pair in enumerate(near):
        needed = 0.0 if is_measured(method_of(*pair)) else FOLDS * final_seconds(*pair)
        if needed <= max(left, 0.0):
            kept.append(place)
            left -= needed
    return kept if 0 in kept else []


def _shares(outcomes: Sequence[Outcome], metric: str) -> list[float]:
    """Each value as a share of the best."""
    values = [one.metrics[metric] for one in outcomes]
    return [value / max(values) if max(values) > 0 else 1.0 for value in values]
