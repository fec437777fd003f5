"""How much of a time budget is spent, over all processes of a search and also over killed ones."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna import Study

_PREFIX = "session:"
_EVERY = 2.0  # seconds between two notes in the study


@dataclass
class Clock:
    """Wall time of a search: of all its processes together, those that run at the same time counted once.

    Each process keeps its begin and its latest moment in the study, so that a killed search that is started again
    goes on with the time that is left.
    """

    study: Study
    seconds: float  # the budget
    _name: str = field(default_factory=lambda: _PREFIX + secrets.token_hex(8))
    began: float = field(default_factory=time.time)  # of this process
    _noted: float = 0.0

    def note(self) -> None:
        """Write down that this process is still at work; cheap when called often."""
        now = time.time()
        if now - self._noted >= _EVERY:
            self._noted = now
            self.study.set_user_attr(self._name, [self.began, now])

    def spent(self) -> float:
        """Seconds until now."""
        sessions = {name: span for name, span in self.study.user_attrs.items() if name.startswith(_PREFIX)}
        return union_length([*sessions.values(), (self.began, time.time())])

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.seconds - self.spent()


def union_length(spans: Iterable[Iterable[float]]) -> float:
    """The total length of intervals, what they share counted once.

    Examples
    --------
    >>> union_length([(0.0, 2.0), (1.0, 3.0), (10.0, 11.0)])
    4.0
    """
    total, until = 0.0, float("-inf")
    for start, stop in sorted(tuple(span) for span in spans):
        total += max(0.0, stop - max(start, until))
        until = max(until, stop)
    return total


@contextmanager
def resumable(is_kept: bool) -> Iterator[None]:
    """Say of a Ctrl-C, wherever it comes, what becomes of the search: a fit that it ends knows only of itself.

    Examples
    --------
    >>> try:
    ...     with resumable(is_kept=True):
    ...         raise KeyboardInterrupt("stopped after epoch 1.")
    ... except KeyboardInterrupt as stop:
    ...     print(stop)
    stopped; the same again goes on where it was.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        then = "the same again goes on where it was" if is_kept else "give out= to be able to go on"
        raise KeyboardInterrupt(f"stopped; {then}.") from stop
