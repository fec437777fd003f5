"""Compiler intrinsics: prefetch, count of trailing zeros, powers of two, atomics, yielding the processor."""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vitalrank.kernels.compiling import LEAN, njit

_LINE = 64  # bytes of a cache line
_FLOAT = 4  # bytes
_YIELD = "SwitchToThread" if os.name == "nt" else "sched_yield"
# Temporal locality of a prefetched line that is used once. Locality 0 keeps the line out of the last-level cache: a
# step is some 5 % shorter on AMD's Zen, and a third longer on Intel.
_USED_ONCE = 0 if get_host_cpu_name().startswith("znver") else 3


def _prefetch(locality: int) -> Any:
    """A prefetch of the cache line at ``array.data + offset`` bytes; ``locality`` is 0 (used once) to 3."""

    def prefetch(typing_context: Any, array: Any, offset: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            address = cgutils.pointer_add(builder, data, args[1], return_type=ir.IntType(8).as_pointer())
            word = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
            call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(call, [address, word(0), word(locality), word(1)])  # read, locality, data
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    return intrinsic(prefetch)


def _lowest_bit(typing_context: Any, word: Any) -> Any:
    """Emit the count of trailing zeros of a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


def _power_of_two(typing_context: Any, exponent: Any) -> Any:
    """Emit ``2 ** exponent`` of a whole float32 from -126 to 127, by its bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        biased = builder.add(builder.fptosi(args[0], word), word(127))
        return builder.bitcast(builder.shl(biased, word(23)), ir.FloatType())

    return types.float32(types.float32), generate


def _atomic_load(typing_context: Any, array: Any) -> Any:
    """Emit an atomic load (acquire) of the first int64 of an array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "acquire", 8, typ=ir.IntType(64))

    return types.int64(array), generate


def _fetch_add(typing_context: Any, array: Any) -> Any:
    """Emit an atomic increment of the first int64 of an array; returns the value before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.IntType(64)(1), "acq_rel")

    return types.int64(array), generate


def _yield_thread(typing_context: Any) -> Any:
    """Emit a call that yields the processor to another thread."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, _YIELD), [])
        return context.get_dummy_value()

    return types.void(), generate


prefetch_line: Any = _prefetch(locality=3)
prefetch_line_once: Any = _prefetch(locality=_USED_ONCE)
lowest_bit: Any = intrinsic(_lowest_bit)
power_of_two: Any = intrinsic(_power_of_two)
atomic_load: Any = intrinsic(_atomic_load)
fetch_add: Any = intrinsic(_fetch_add)
yield_thread: Any = intrinsic(_yield_thread)


@njit(inline="always")
def prefetch_row(table: Any, row: Any) -> None:
    """Start loading every cache line of ``table[row]``; the table is C-contiguous."""
    width = table.strides[0]
    start = row * width
    for offset in range(0, width, _LINE):
        prefetch_line(table, start + offset)


@njit(inline="always", cache=True, **LEAN)
def prefetch_columns(table: Any, row: Any, columns: Any, used_once: Any) -> None:
    """Start loading the first ``columns`` numbers of a row.

    ``used_once``: the row is updated now and not read again soon, so it should not evict the items from the cache.
    """
    start = row * table.strides[0]
    for offset in range(0, columns * _FLOAT, _LINE):
        if used_once:
            prefetch_line_once(table, start + offset)
        else:
            prefetch_line(table, start + offset)
