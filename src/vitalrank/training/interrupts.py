"""Ctrl-C during training: finish the epoch first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupt:
    """Whether someone pressed Ctrl-C."""

    wanted: bool = False

    def __call__(self, number: int, frame: Any) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Note the first Ctrl-C instead of raising; a second one raises at once.

    Outside the main thread, where signals cannot be handled, nothing changes.

    Examples
    --------
    >>> with interruptible() as interrupt:
    ...     signal.raise_signal(signal.SIGINT)
    >>> interrupt.wanted
    True
    """
    interrupt = Interrupt()
    try:
        before = signal.signal(signal.SIGINT, interrupt)
    except ValueError:
        yield interrupt
        return
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
