"""Two instructions Python has no word for: asking for memory before it is needed, and finding the lowest set bit."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_LINE = 64  # bytes


def _prefetch_line(typing_context: Any, array: Any, offset: Any) -> Any:
    """Emit one prefetch of the cache line at ``array.data + offset`` bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = cgutils.pointer_add(builder, data, args[1], return_type=ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(call, [address, word(0), word(3), word(1)])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _lowest_bit(typing_context: Any, word: Any) -> Any:
    """Emit the number of zero bits below the lowest set bit of a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


prefetch_line: Any = intrinsic(_prefetch_line)
lowest_bit: Any = intrinsic(_lowest_bit)


@njit(inline="always")
def prefetch_row(table: Any, row: Any) -> None:
    """Start loading every cache line of ``table[row]``; the table is C-contiguous."""
    width = table.strides[0]
    start = row * width
    for offset in range(0, width, _LINE):
        prefetch_line(table, start + offset)
