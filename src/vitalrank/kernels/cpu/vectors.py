"""Random words and the judgement of shots, several at once in vector registers.

Written out, since the compiler takes such short loops apart or does half a register at a time; where a machine has no
such registers, it takes the vectors apart again.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vitalrank.kernels.rng import LANES, ROUND_KEYS, ROUND_WORDS, ROUNDS

_BIT, _INT, _WORD = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()
_LOW = 0xFFFFFFFF
_UNIT = 2.0**-32
_GATHER = f"llvm.masked.gather.v{LANES}f32.v{LANES}p0"
_PLACE = (types.uint64,) * 5  # seed, step, row, stream, first block


def _vector(kind: Any) -> Any:
    return ir.VectorType(kind, LANES)


def _same(kind: Any, value: Any) -> Any:
    """A vector of one constant."""
    return ir.Constant(_vector(kind), [value] * LANES)


def _spread(builder: Any, value: Any) -> Any:
    """A vector of one value."""
    first = builder.insert_element(ir.Constant(_vector(value.type), ir.Undefined), value, _INT(0))
    return builder.shuffle_vector(first, first, _same(_INT, 0))


def _low(builder: Any, words: Any) -> Any:
    return builder.and_(words, _same(_WORD, _LOW))


def _high(builder: Any, words: Any) -> Any:
    return builder.lshr(words, _same(_WORD, 32))


def _philox(builder: Any, seed: Any, step: Any, row: Any, stream: Any, block: Any) -> list[Any]:
    """The four words of each of LANES blocks, as ``rng.philox`` makes them; upper halves are cleared at the end."""
    key_0, key_1 = _spread(builder, seed), _spread(builder, builder.lshr(seed, _WORD(32)))
    a, b, d = (_spread(builder, number) for number in (step, row, stream))
    c = builder.add(_spread(builder, block), ir.Constant(_vector(_WORD), list(range(LANES))))
    for _ in range(ROUNDS):
        left, right = (builder.mul(_low(builder, x), _same(_WORD, y)) for x, y in zip((a, c), ROUND_WORDS, strict=True))
        a, b = builder.xor(builder.xor(_high(builder, right), b), key_0), right
        c, d = builder.xor(builder.xor(_high(builder, left), d), key_1), left
        key_0, key_1 = (builder.add(x, _same(_WORD, y)) for x, y in zip((key_0, key_1), ROUND_KEYS, strict=True))
    return [_low(builder, word) for word in (a, b, c, d)]


def _gather(builder: Any, array: Any, places: Any) -> Any:
    """``array[places]`` of 32-bit floats."""
    start = _spread(builder, builder.ptrtoint(array, _WORD))
    pointers = _vector(ir.IntType(8).as_pointer())
    addresses = builder.inttoptr(builder.add(start, builder.shl(places, _same(_WORD, 2))), pointers)
    kind = ir.FunctionType(_vector(_FLOAT), [pointers, _INT, _vector(_BIT), _vector(_FLOAT)])
    gather = cgutils.get_or_insert_function(builder.module, kind, _GATHER)
    return builder.call(gather, [addresses, _INT(4), _same(_BIT, 1), _same(_FLOAT, 0.0)])


def _store(builder: Any, vector: Any, address: Any, align: int) -> None:
    builder.store(vector, builder.bitcast(address, vector.type.as_pointer()), align=align)


def _fill_words(
    typing_context: Any, seed: Any, step: Any, row: Any, stream: Any, block: Any, words: Any
) -> Any:  # fmt: skip
    """Emit the loading of ``words`` (4, LANES) with the blocks from ``block`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[5])(context, builder, args[5]).data
        for row_of_words, made in enumerate(_philox(builder, *args[:5])):
            _store(builder, made, cgutils.pointer_add(builder, data, _WORD(row_of_words * LANES * 8)), align=8)
        return context.get_dummy_value()

    return types.void(*_PLACE, words), generate


def _fire_shots(
    typing_context: Any, seed: Any, step: Any, row: Any, stream: Any, block: Any, size: Any, level: Any, levels: Any,
    places: Any, weights: Any,
) -> Any:  # fmt: skip
    """Emit the judgement of all pairs ``a, b`` of the blocks from ``block`` on; gives a bit for each that is accepted.

    A pair hits the place ``a * size // 2**32``, whose weight is ``levels[place]``, and is accepted if
    ``b / 2**32 * level < weight``; both are left in ``places`` and ``weights`` (2 * LANES,).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def data(n: int) -> Any:
            return context.make_array(signature.args[n])(context, builder, args[n]).data

        words = _philox(builder, *args[:5])
        count = _low(builder, _spread(builder, args[5]))
        bar = _spread(builder, builder.fmul(args[6], _DOUBLE(_UNIT)))
        halves = []
        for aimed, held in (words[:2], words[2:]):
            place = _high(builder, builder.mul(aimed, count))
            weight = _gather(builder, data(7), place)
            aim = builder.fmul(builder.uitofp(held, _vector(_DOUBLE)), bar)
            halves.append((place, weight, builder.fcmp_ordered("<", aim, builder.fpext(weight, _vector(_DOUBLE)))))
        # The two pairs of a block stand side by side.
        order = ir.Constant(ir.VectorType(_INT, 2 * LANES), [n for lane in range(LANES) for n in (lane, lane + LANES)])
        all_places, all_weights, accepted = (builder.shuffle_vector(*both, order) for both in zip(*halves, strict=True))
        _store(builder, all_places, data(8), align=8)
        _store(builder, all_weights, data(9), align=4)
        return builder.zext(builder.bitcast(accepted, ir.IntType(2 * LANES)), _WORD)

    return types.uint64(*_PLACE, types.int64, types.float64, levels, places, weights), generate


fill_words: Any = intrinsic(_fill_words)
fire_shots: Any = intrinsic(_fire_shots)
