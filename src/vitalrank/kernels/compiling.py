"""What every kernel needs before it is compiled: a place to be kept in, and nothing collected meanwhile."""

from __future__ import annotations

import gc
from typing import Any

from numba.core.event import Listener, register

from vitalrank.kernels import caching


class _Uncollected(Listener):
    """No garbage collection while Numba compiles: its trees are large, all alive, and looked through again and again.

    Numba compiles one kernel at a time, with those that it calls inside, so a count of those begun is enough.
    """

    def __init__(self) -> None:
        self._begun = 0
        self._was_on = False

    def on_start(self, event: Any) -> None:
        if self._begun == 0:
            self._was_on = gc.isenabled()
            gc.disable()
        self._begun += 1

    def on_end(self, event: Any) -> None:
        self._begun -= 1
        if self._begun == 0 and self._was_on:
            gc.enable()


caching.ensure()
register("numba:compile", _Uncollected())
