"""Sixteen shots judged at once, in vector registers.

Written out, since the compiler unrolls a loop of sixteen turns instead of vectorising it; where a machine has no such
registers, it takes the vectors apart again.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vitalrank.kernels.rng import LANES

_BIT, _INT, _WORD = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()
_UNIT = 2.0**-32
_GATHER = f"llvm.masked.gather.v{LANES}f32.v{LANES}p0"


def _vector(kind: Any) -> Any:
    return ir.VectorType(kind, LANES)


def _same(kind: Any, value: Any) -> Any:
    """A vector of one constant."""
    return ir.Constant(_vector(kind), [value] * LANES)


def _spread(builder: Any, value: Any) -> Any:
    """A vector of one value."""
    first = builder.insert_element(ir.Constant(_vector(value.type), ir.Undefined), value, _INT(0))
    return builder.shuffle_vector(first, first, _same(_INT, 0))


def _load_words(builder: Any, words: Any, row: int) -> Any:
    """A row of the random words, whose upper halves are empty."""
    address = cgutils.pointer_add(builder, words, _WORD(row * LANES * 8))
    row_of_words = builder.load(builder.bitcast(address, _vector(_WORD).as_pointer()), align=8)
    return builder.and_(row_of_words, _same(_WORD, 0xFFFFFFFF))


def _gather(builder: Any, array: Any, places: Any) -> Any:
    """``array[places]`` of 32-bit floats."""
    start = _spread(builder, builder.ptrtoint(array, _WORD))
    pointers = _vector(ir.IntType(8).as_pointer())
    addresses = builder.inttoptr(builder.add(start, builder.shl(places, _same(_WORD, 2))), pointers)
    kind = ir.FunctionType(_vector(_FLOAT), [pointers, _INT, _vector(_BIT), _vector(_FLOAT)])
    gather = cgutils.get_or_insert_function(builder.module, kind, _GATHER)
    return builder.call(gather, [addresses, _INT(4), _same(_BIT, 1), _same(_FLOAT, 0.0)])


def _judge_shots(typing_context: Any, words: Any, size: Any, level: Any, levels: Any, places: Any, weights: Any) -> Any:
    """Emit the judgement of all pairs ``a, b`` of ``words`` (4, LANES); gives a bit for each that is accepted.

    A pair hits the place ``a * size // 2**32``, whose weight is ``levels[place]``, and is accepted if
    ``b / 2**32 * level < weight``; both are left in ``places`` and ``weights`` (2 * LANES,).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def data(n: int) -> Any:
            return context.make_array(signature.args[n])(context, builder, args[n]).data

        count = builder.and_(_spread(builder, args[1]), _same(_WORD, 0xFFFFFFFF))
        bar = _spread(builder, builder.fmul(args[2], _DOUBLE(_UNIT)))
        halves = []
        for first in (0, 2):
            place = builder.lshr(builder.mul(_load_words(builder, data(0), first), count), _same(_WORD, 32))
            weight = _gather(builder, data(3), place)
            aim = builder.fmul(builder.uitofp(_load_words(builder, data(0), first + 1), _vector(_DOUBLE)), bar)
            halves.append((place, weight, builder.fcmp_ordered("<", aim, builder.fpext(weight, _vector(_DOUBLE)))))
        # The two pairs of a block stand side by side.
        order = ir.Constant(ir.VectorType(_INT, 2 * LANES), [n for lane in range(LANES) for n in (lane, lane + LANES)])
        all_places, all_weights, accepted = (builder.shuffle_vector(*both, order) for both in zip(*halves, strict=True))
        builder.store(all_places, builder.bitcast(data(4), all_places.type.as_pointer()), align=8)
        builder.store(all_weights, builder.bitcast(data(5), all_weights.type.as_pointer()), align=4)
        return builder.zext(builder.bitcast(accepted, ir.IntType(2 * LANES)), _WORD)

    return types.uint64(words, types.int64, types.float64, levels, places, weights), generate


judge_shots: Any = intrinsic(_judge_shots)
