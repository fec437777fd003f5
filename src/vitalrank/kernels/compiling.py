"""How kernels are compiled: the options they share, a place to be kept in, and nothing collected meanwhile."""

from __future__ import annotations

import gc
from typing import Any

from numba.core.event import Listener, register

from vitalrank.kernels import caching

# Kernels that allocate nothing need no reference counts; counting costs more than a draw.
LEAN: Any = {"_nrt": False, "no_cfunc_wrapper": True}
# What only other kernels call needs no way in from Python, which takes longer to compile than a short kernel; without
# it, a call from Python would crash.
INNER: Any = {**LEAN, "no_cpython_wrapper": True}
# What Numba picks by the types of its arguments, to stand where it is called.
PICKED: Any = {**INNER, "error_model": "numpy", "forceinline": True}
# Sums may be reordered (so that they vectorise), but NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}


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
