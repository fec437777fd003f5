"""Ctrl-C and ``kill`` during training: finish the epoch first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """The signal that asks the training to stop, if one came: SIGINT (Ctrl-C) or SIGTERM (``kill``)."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def wanted(self) -> bool:
        """Whether a signal came."""
        return self.number is not None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            raise _stop(number)
        self.number = number

    def error(self, message: str) -> BaseException:
        """What to raise once the run is saved: KeyboardInterrupt, or SystemExit with code 143 for SIGTERM."""
        return _stop(self.number, message)


def _stop(number: int | None, message: str = "") -> BaseException:
    return SystemExit(128 + signal.SIGTERM) if number == signal.SIGTERM else KeyboardInterrupt(message)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Note the first SIGINT or SIGTERM instead of ending at once; a second one does.

    A handler of SIGTERM that somebody else installed stays. Outside the main thread, where signals cannot be handled,
    nothing changes.

    Examples
    --------
    >>> with interruptible() as interrupt:
    ...     signal.raise_signal(signal.SIGINT)
    >>> interrupt.wanted
    True
    """
    interrupt = Interrupt()
    previous = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if number == signal.SIGINT or signal.getsignal(number) == signal.SIG_DFL:
                previous[number] = signal.signal(number, interrupt)
    except ValueError:
        yield interrupt
        return
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
