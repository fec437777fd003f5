"""Products of small blocks of rows, emitted as vector instructions: the sums stay in registers, in one order."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vitalrank.kernels.compiling import INNER, njit

LANES = 16  # columns of a block: a register of AVX-512, or several of what there is
ROWS = 8 if get_host_cpu_features().get("avx512f") else 4  # as many as registers hold; sums do not depend on it
_FLOAT, _WORD, _BYTES = ir.FloatType(), ir.IntType(64), 4
_VECTOR = ir.VectorType(_FLOAT, LANES)


def _address(builder: Any, array: Any, row: Any, column: Any, kind: Any) -> Any:
    """The address of an element of an array whose rows are contiguous."""
    offset = builder.mul(row, builder.extract_value(array.strides, 0))
    offset = builder.add(offset, builder.mul(column, _WORD(_BYTES)))
    return cgutils.pointer_add(builder, array.data, offset, return_type=kind.as_pointer())


def _broadcast(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _add_block(transposed: bool) -> Any:
    """Emit ``out[first + r, start + j] += sum over k of left[first + r, column + k] * right[k, place + j]``.

    For ROWS rows r, LANES columns j, and all rows k of ``right``. ``transposed``: of ``left[k, column + first + r]``.
    """

    def add_block(
        typing_context: Any, left: Any, first: Any, column: Any, right: Any, place: Any, out: Any, start: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lefts, rights, outs = (context.make_array(signature.args[n])(context, builder, args[n]) for n in (0, 3, 5))
            _, first, column, _, place, _, start = args
            kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
            fused = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
            rows = [builder.add(first, _WORD(r)) for r in range(ROWS)]
            places = [_address(builder, outs, row, start, _VECTOR) for row in rows]
            sums = [cgutils.alloca_once_value(builder, builder.load(place, align=_BYTES)) for place in places]
            with cgutils.for_range(builder, builder.extract_value(rights.shape, 0)) as loop:
                k = loop.index
                line = builder.load(_address(builder, rights, k, place, _VECTOR), align=_BYTES)
                for row, total in zip(rows, sums, strict=True):
                    at = (k, builder.add(column, row)) if transposed else (row, builder.add(column, k))
                    factor = _broadcast(builder, builder.load(_address(builder, lefts, *at, _FLOAT)))
                    builder.store(builder.call(fused, [factor, line, builder.load(total)]), total)
            for address, total in zip(places, sums, strict=True):
                builder.store(builder.load(total), address, align=_BYTES)
            return context.get_dummy_value()

        return types.void(left, types.intp, types.intp, right, types.intp, out, types.intp), generate

    return intrinsic(add_block)


_add, _add_transposed = _add_block(transposed=False), _add_block(transposed=True)


@njit(cache=True, **INNER)
def add_products(left: Any, column: Any, right: Any, out: Any, start: Any) -> None:
    """``out[r, start + j] += sum over k of left[r, column + k] * right[k, j]``, all r, j and k.

    ``out`` has a multiple of ROWS rows, ``right`` a multiple of LANES columns.
    """
    for first in range(0, out.shape[0], ROWS):
        for place in range(0, right.shape[1], LANES):
            _add(left, first, column, right, place, out, start + place)


@njit(cache=True, **INNER)
def add_transposed_products(left: Any, column: Any, right: Any, out: Any) -> None:
    """``out[r, j] += sum over k of left[k, column + r] * right[k, j]``, all r, j and k."""
    for first in range(0, out.shape[0], ROWS):
        for place in range(0, right.shape[1], LANES):
            _add_transposed(left, first, column, right, place, out, place)
