"""A search that may end at any moment: the defaults, what others found good, then ever closer to the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial

from vitalrank.tuning.methods import Params, SearchMethod, TrialHistory
from vitalrank.tuning.points import around
from vitalrank.tuning.rounds import Rounds
from vitalrank.tuning.spaces import Choice, Space

BOXES = (0.5, 0.25, 1.0, 0.12)  # shares of the space around the best, in turn
_CHANGED = 0.6  # probability that a setting changes; the others stay those of the best
_ATTEMPTS = 20  # to find settings that were not tried
_LATE = 0.8  # share of its epochs after which the best one of a stopped trial says that it was still learning


@dataclass
class Nearby(SearchMethod):
    """The start, hints, then points in boxes around the best; a trial that its limit stopped too early goes first.

    Parameters
    ----------
    space, start, seed, trials
        What to search, the settings to try first, the seed of the points, and the most trials.
    hints
        Settings to try before any point, such as those that did well with another sampler.
    limit
        Seconds that the next trial may take: the best settings are trained again where that is enough for more
        epochs than they had.
    """

    space: Space
    start: Params
    seed: int
    trials: int
    hints: Callable[[], Sequence[Params]] = lambda: ()
    limit: Callable[[], float] = lambda: 0.0
    is_distinct: bool = field(default=False, init=False)

    def propose(self, history: TrialHistory) -> Params | None:
        if self.is_full(history):
            return None
        alive = history.alive
        first = (*history.failed, self.start, *self.hints())
        fresh = next((params for params in first if params not in alive), None)
        if fresh is not None:
            return fresh
        return self._longer(history) or self._near(history)

    def is_complete(self, history: TrialHistory) -> bool:
        return len(history.finished) >= self._wanted

    def is_full(self, history: TrialHistory) -> bool:
        return len(history.alive) >= self._wanted

    @property
    def _wanted(self) -> int:
        return self.trials if self.space else 1

    def _longer(self, history: TrialHistory) -> Params | None:
        """The best settings again, where more time would have helped them."""
        best = _best(history)
        if best is None:
            return None
        outcome = best.user_attrs["outcome"]
        is_early = outcome["state"] == "stopped" and outcome["epoch"] >= _LATE * outcome["epochs"]
        is_running = any(trial.params == best.params for trial in history.running)
        return best.params if is_early and not is_running and self.limit() > 2 * outcome["seconds"] else None

    def _near(self, history: TrialHistory) -> Params | None:
        """Settings around the best; None if all that were looked at are tried already."""
        rounds = Rounds(self.space, 1, self.seed)
        best = _best(history)
        middle = rounds.point(self.start if best is None else best.params)  # (d,)
        number = len(history.alive)
        rng = np.random.default_rng((self.seed, number))
        for attempt in range(_ATTEMPTS):
            box = BOXES[(number + attempt) % len(BOXES)]
            point = around([(middle, 0.0)], box, rng.random((1, len(middle))))[0]
            params = rounds.values(np.where(rng.random(len(middle)) < _CHANGED, point, middle))
            kept = {name: self._value(name, params[name], best) for name in self.space}
            if kept not in history.alive:
                return kept
        return None

    def _value(self, name: str, value: object, best: FrozenTrial | None) -> object:
        """A default that is no point of the space's rounding stays exactly what it is."""
        known: Mapping[str, Any] = self.start if best is None else best.params
        dimension = self.space[name]
        is_same = (
            not isinstance(dimension, Choice) and isinstance(value, float) and np.isclose(value, known[name], 1e-2)
        )
        return known[name] if is_same else value


def _best(history: TrialHistory) -> FrozenTrial | None:
    """The trial with the best value of those that came to a result."""
    whole = [
        trial
        for trial in history.finished
        if trial.value is not None and trial.user_attrs["outcome"]["state"] != "pruned"
    ]
    return max(whole, key=lambda trial: (trial.value or 0.0, -trial.number), default=None)
