"""Successive halving over time: the defaults of all candidates first, then ever fewer get the time that is left."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial

from vitalrank.history import Record
from vitalrank.interactions import Interactions
from vitalrank.selection.candidates import Candidate, shared_hints
from vitalrank.selection.clock import Clock
from vitalrank.selection.trials import (
    GROWTH,
    best_trial,
    final_seconds,
    fit_seconds,
    refit_seconds,
    search_of,
    seconds_spent,
)
from vitalrank.tuning import Trial, studies
from vitalrank.tuning.claims import Claims
from vitalrank.tuning.methods import Params
from vitalrank.tuning.nearby import Nearby
from vitalrank.tuning.running import study_facts
from vitalrank.tuning.searching import Search
from vitalrank.tuning.workers import join

# Called after each epoch of a trial (its record) and each finished trial, with the candidate's label.
SearchCallback = Callable[[str, "Record | Trial"], None]

MOST_TRIALS = 64  # of a candidate
FINALISTS = 3
FOLDS = 2  # of the run-off
_MOST_NEAR = 4  # candidates in the run-off
_NEAR = 2.0  # standard errors below the best on valid
_SPREAD = 0.5  # variance of a user's value as a share of its mean, at most 1 for values from 0 to 1
_FIRST_SHARE = 0.5  # of the time left that the first trials of all candidates may take together
_RUNGS = ((0.35, 0.5), (0.65, 0.25), (1.0, 0.0))  # until this share of the budget, this share of the candidates goes on
_FEWEST = 2  # candidates of a rung
_CHEAP = 0.01  # of the budget: what fits in no longer is tried with each hint before any training in epochs
_CHEAP_SCORING = 0.1  # the same, for hints that need no other fit
_ONE_SHARE = 0.5  # of the time left that a single trial may take
_MOST_RESERVED = 0.4  # of the budget, for the final and the refit
_POLL_SECONDS = 0.3
_SAFETY = 1.3  # a fit without epochs may take so much longer than the slowest one before


@dataclass
class Contest:
    """The search of all candidates.

    Parameters
    ----------
    candidates
        With their searches open.
    clock
        Time spent and left.
    """

    candidates: Sequence[Candidate]
    clock: Clock

    def run(self) -> None:
        """Run trials until the time that the final and the refit do not need is spent, or nothing is left to try."""
        exhausted: set[str] = set()
        with studies.written():
            while True:
                self.clock.note()
                chosen = self._next(exhausted)
                if chosen is None:
                    if self.left() <= 0 or not self._others_run():
                        return
                    time.sleep(_POLL_SECONDS)
                    exhausted.clear()  # what another process does not finish is open again
                    continue
                candidate, limit = chosen
                candidate.compile()
                if not search_of(candidate).run_one(limit):
                    exhausted.add(candidate.label)

    def _others_run(self) -> bool:
        """Whether another process is at work on a trial, which may win."""
        return any(search_of(one).claims.history().running for one in self.candidates)

    def left(self) -> float:
        """Seconds that are left for trials."""
        return self.clock.left() - self.reserved()

    def reserved(self) -> float:
        """Seconds that the final and the refit are estimated to take."""
        ranked = self.ranked()
        if not ranked:
            return 0.1 * self.clock.seconds
        winner = final_seconds(*ranked[0]) + refit_seconds(*ranked[0])
        others = sum(final_seconds(*pair) for pair in ranked[1:FINALISTS])
        near = near_best(ranked)
        others += sum(FOLDS * final_seconds(*pair) for pair in near) if len(near) > 1 else 0.0
        return float(max(winner, min(winner + others, _MOST_RESERVED * self.clock.seconds)))

    def ranked(self) -> list[tuple[Candidate, FrozenTrial]]:
        """The candidates that have a result, with their best trial, the best first."""
        found = [(one, best) for one in self.candidates if (best := best_trial(one)) is not None]
        return sorted(found, key=lambda pair: -float(pair[1].value or 0.0))

    def _next(self, exhausted: set[str]) -> tuple[Candidate, float] | None:
        """The candidate whose turn it is, and the seconds that its next trial may take."""
        left = self.left()
        first, most = _FIRST_SHARE * left, min(_ONE_SHARE * left, self._most_seconds())
        untried = [one for one in self.candidates if not search_of(one).claims.history().alive]
        if left <= 0:  # the time was too short for anything: one result there shall be
            return (untried[0], self.clock.seconds) if untried and not self.ranked() else None
        if untried and not untried[0].has_steps:
            return untried[0], min(first / len(untried), most)
        hinted = [one for one in self.candidates if one.label not in exhausted and self._has_cheap_hints(one)]
        if hinted:
            return hinted[0], most
        if untried:
            return untried[0], min(first / len(untried), most)
        open_ones = [one for one in self._survivors() if one.label not in exhausted]
        able = [one for one in open_ones if _can_start(one, min(left, self._most_seconds()))]
        if not able:
            return None
        return min(able, key=seconds_spent), most

    def _most_seconds(self) -> float:
        """What a trial may take if it is to win: the final and the refit repeat it in the time that is left then."""
        return self.clock.left() / (2 + GROWTH)

    def _survivors(self) -> list[Candidate]:
        """The best of those that still have something to try; fewer the more of the budget is spent."""
        spent = 1.0 - max(self.left(), 0.0) / max(self.clock.seconds, 1e-9)
        share = next((kept for until, kept in _RUNGS if spent < until), 0.0)
        count = max(_FEWEST, math.ceil(share * len(self.candidates)))
        searchable = [one for one, _ in self.ranked() if one.plan.space]
        in_turn = [one for one in searchable if len(search_of(one).claims.finished) < MOST_TRIALS]
        return in_turn[:count]

    def _has_cheap_hints(self, candidate: Candidate) -> bool:
        """Whether there are settings that are known to matter, not tried yet, and next to nothing to try."""
        if candidate.has_steps:
            return False
        claims = search_of(candidate).claims
        alive = claims.history().alive
        hint = next((params for params in candidate.variants() if params not in alive), None)
        if hint is None or len(alive) >= MOST_TRIALS:
            return False
        share = _CHEAP if candidate.needs_fit(hint) else _CHEAP_SCORING
        return fit_seconds(candidate) < share * self.clock.seconds


@contextmanager
def opened(
    candidates: Sequence[Candidate],
    parts: dict[str, Interactions],
    storage: str | os.PathLike[str] | None,
    seed: int,
    callback: SearchCallback | None,
    clock: Clock,
) -> Iterator[None]:
    """Open the study of each candidate, to be searched by this process and any other that names the storage."""
    with ExitStack() as stack, studies.quiet():
        for candidate in candidates:
            facts = study_facts(candidate.plan, parts["train"], parts["valid"], seed)
            name = candidate.label.replace(" ", "-")
            study = studies.open_study(
                storage, name, "median", facts["epochs"], {**facts, "pruner": "median", "method": "nearby"}
            )
            worker = stack.enter_context(closing(join(study, studies.file_of(storage), shared=storage is not None)))
            distributions = {key: studies.distribution_of(one) for key, one in candidate.plan.space.items()}
            method = Nearby(candidate.plan.space, candidate.start, seed, MOST_TRIALS)
            claims = Claims(study, distributions, method, worker)
            report = partial(_report, candidate.label, callback, clock)
            search = Search(candidate.plan, parts["train"], parts["valid"], claims, report, MOST_TRIALS)
            method.hints = partial(_hints, candidate, candidates)
            method.limit = partial(getattr, search, "limit")
            candidate.search = search
        yield


def near_best(ranked: Sequence[tuple[Candidate, FrozenTrial]]) -> Sequence[tuple[Candidate, FrozenTrial]]:
    """The best on valid, and those that its users are too few to tell from it."""
    best = float(ranked[0][1].value or 0.0)
    users = max(1, int(np.count_nonzero(np.diff(search_of(ranked[0][0]).valid.indptr))))
    least = best - _NEAR * math.sqrt(_SPREAD * best / users)
    return [pair for pair in ranked[:_MOST_NEAR] if float(pair[1].value or 0.0) >= least]


def _can_start(candidate: Candidate, left: float) -> bool:
    """Whether a fit that cannot be stopped would end in time."""
    return candidate.has_steps or _SAFETY * fit_seconds(candidate) < left


def _hints(candidate: Candidate, others: Sequence[Candidate]) -> list[Params]:
    best = None if candidate.has_steps else best_trial(candidate)
    beside = [] if best is None else candidate.rescored(best.params)
    return [*candidate.variants(), *beside, *shared_hints(candidate, others)]


def _report(
    label: str, callback: SearchCallback | None, clock: Clock, number: int, news: dict[str, Any] | Trial
) -> None:
    clock.note()
    if callback is not None:
        callback(label, news)
