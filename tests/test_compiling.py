"""While a kernel is compiled nothing is collected; before and after, what the caller had chosen holds."""

from __future__ import annotations

import gc

import pytest
from numba import njit
from numba.extending import overload

import vitalrank.kernels.compiling  # noqa: F401  (looks after the collector)


@pytest.mark.parametrize("chosen", [True, False])
def test_the_collector_rests_while_a_kernel_is_compiled(chosen):
    seen = []

    def one():
        return 1

    @overload(one)
    def _compiled():
        seen.append(gc.isenabled())
        return lambda: 1

    before = gc.isenabled()
    (gc.enable if chosen else gc.disable)()
    try:
        assert njit(lambda: one())() == 1
        assert gc.isenabled() is chosen
    finally:
        (gc.enable if before else gc.disable)()
    assert seen
    assert not any(seen)


def test_a_kernel_that_cannot_be_compiled_leaves_the_collector_on():
    with pytest.raises(Exception, match="nowhere"):
        njit(lambda: nowhere)()  # noqa: F821
    assert gc.isenabled()
