"""Instructions that Python has no word for: prefetches, the lowest set bit, numbers that threads share."""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from vitalrank.kernels.compiling import LEAN

_LINE = 64  # bytes of a cache line
_FLOAT = 4  # bytes
_YIELD = "SwitchToThread" if os.name == "nt" else "sched_yield"
# How long a line that is used once is to stay. On AMD's Zen, asked for "once", it leaves other lines their place in the
# last cache and a step is some 5 % shorter; on Intel it passes the last cache by, and a step takes a third longer.
_ONCE = 0 if get_host_cpu_name().startswith("znver") else 3


def _prefetch(keep: int) -> Any:
    """A prefetch of the cache line at ``array.data + offset`` bytes; ``keep`` is from 0, for one use, to 3."""

    def prefetch(typing_context: Any, array: Any, offset: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            address = cgutils.pointer_add(builder, data, args[1], return_type=ir.IntType(8).as_pointer())
            word = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
            call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(call, [address, word(0), word(keep), word(1)])  # read, keep, data
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    return intrinsic(prefetch)


def _lowest_bit(typing_context: Any, word: Any) -> Any:
    """Emit the number of zero bits below the lowest set bit of a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


def _peek(typing_context: Any, array: Any) -> Any:
    """Emit a load of the first int64 of an array that another thread may have written just now."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "acquire", 8, typ=ir.IntType(64))

    return types.int64(array), generate


def _add_one(typing_context: Any, array: Any) -> Any:
    """Emit an addition to the first int64 of an array that no other thread comes between; gives what it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.IntType(64)(1), "acq_rel")

    return types.int64(array), generate


def _give_way(typing_context: Any) -> Any:
    """Emit a call that lets another thread have the core."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, _YIELD), [])
        return context.get_dummy_value()

    return types.void(), generate


prefetch_line: Any = _prefetch(keep=3)
prefetch_line_once: Any = _prefetch(keep=_ONCE)
lowest_bit: Any = intrinsic(_lowest_bit)
peek: Any = intrinsic(_peek)
add_one: Any = intrinsic(_add_one)
give_way: Any = intrinsic(_give_way)


@njit(inline="always")
def prefetch_row(table: Any, row: Any) -> None:
    """Start loading every cache line of ``table[row]``; the table is C-contiguous."""
    width = table.strides[0]
    start = row * width
    for offset in range(0, width, _LINE):
        prefetch_line(table, start + offset)


@njit(inline="always", cache=True, **LEAN)
def prefetch_columns(table: Any, row: Any, columns: Any, is_last: Any) -> None:
    """Start loading the first ``columns`` numbers of a row.

    ``is_last``: it moves now and is not read soon again, so it shall not push the items' values out of the cache.
    """
    start = row * table.strides[0]
    for offset in range(0, columns * _FLOAT, _LINE):
        if is_last:
            prefetch_line_once(table, start + offset)
        else:
            prefetch_line(table, start + offset)
