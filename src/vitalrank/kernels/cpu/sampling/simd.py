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
_WIDE = 4  # words of a vector: on many processors wider ones slow down all that runs beside them
_FIRSTS = range(0, LANES, _WIDE)  # the first block of each vector
_GATHER = f"llvm.masked.gather.v{_WIDE}f32.v{_WIDE}p0"
_PLACE = (types.uint64,) * 5  # seed, step, row, stream, first block


def _vector(kind: Any) -> Any:
    return ir.VectorType(kind, _WIDE)


def _same(kind: Any, value: Any) -> Any:
    """A vector of one constant."""
    return ir.Constant(_vector(kind), [value] * _WIDE)


def _spread(builder: Any, value: Any) -> Any:
    """A vector of one value."""
    first = builder.insert_element(ir.Constant(_vector(value.type), ir.Undefined), value, _INT(0))
    return builder.shuffle_vector(first, first, _same(_INT, 0))


def _low(builder: Any, words: Any) -> Any:
    return builder.and_(words, _same(_WORD, _LOW))


def _high(builder: Any, words: Any) -> Any:
    return builder.lshr(words, _same(_WORD, 32))


def _philox(builder: Any, seed: Any, step: Any, row: Any, stream: Any, block: Any) -> list[list[Any]]:
    """The four words of LANES blocks, a vector of blocks after the other, as ``rng.philox`` makes them.

    All vectors go through a round before the next, so that none waits for itself; upper halves are cleared last.
    """
    keys = [_spread(builder, seed), _spread(builder, builder.lshr(seed, _WORD(32)))]
    a, b, d = (_spread(builder, number) for number in (step, row, stream))
    lanes = [ir.Constant(_vector(_WORD), list(range(first, first + _WIDE))) for first in _FIRSTS]
    groups = [[a, b, builder.add(_spread(builder, block), blocks), d] for blocks in lanes]
    for _ in range(ROUNDS):
        groups = [_round(builder, *words, *keys) for words in groups]
        keys = [builder.add(key, _same(_WORD, more)) for key, more in zip(keys, ROUND_KEYS, strict=True)]
    return [[_low(builder, word) for word in words] for words in groups]


def _round(builder: Any, a: Any, b: Any, c: Any, d: Any, key_0: Any, key_1: Any) -> list[Any]:
    left, right = (builder.mul(_low(builder, x), _same(_WORD, y)) for x, y in zip((a, c), ROUND_WORDS, strict=True))
    new_a = builder.xor(builder.xor(_high(builder, right), b), key_0)
    new_c = builder.xor(builder.xor(_high(builder, left), d), key_1)
    return [new_a, right, new_c, left]


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
        for first, made in zip(_FIRSTS, _philox(builder, *args[:5]), strict=True):
            for number, vector in enumerate(made):
                _store(builder, vector, builder.gep(data, [_WORD(number * LANES + first)]), align=8)
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
        levels, places, weights = (
            context.make_array(signature.args[n])(context, builder, args[n]).data for n in (7, 8, 9)
        )
        count = _low(builder, _spread(builder, args[5]))
        bar = _spread(builder, builder.fmul(args[6], _DOUBLE(_UNIT)))
        found = _WORD(0)
        for first, words in zip(_FIRSTS, _philox(builder, *args[:5]), strict=True):
            a, b, c, d = words
            halves = [_judge(builder, aimed, held, count, bar, levels) for aimed, held in ((a, b), (c, d))]
            place, weight, accepted = (_side_by_side(builder, *both) for both in zip(*halves, strict=True))
            _store(builder, place, builder.gep(places, [_WORD(2 * first)]), align=8)
            _store(builder, weight, builder.gep(weights, [_WORD(2 * first)]), align=4)
            bits = builder.zext(builder.bitcast(accepted, ir.IntType(2 * _WIDE)), _WORD)
            found = builder.or_(found, builder.shl(bits, _WORD(2 * first)))
        return found

    return types.uint64(*_PLACE, types.int64, types.float64, levels, places, weights), generate


def _judge(builder: Any, aimed: Any, held: Any, count: Any, bar: Any, levels: Any) -> tuple[Any, Any, Any]:
    """What a vector of shots hits, its weight, and whether it is accepted."""
    place = _high(builder, builder.mul(aimed, count))
    weight = _gather(builder, levels, place)
    aim = builder.fmul(builder.uitofp(held, _vector(_DOUBLE)), bar)
    return place, weight, builder.fcmp_ordered("<", aim, builder.fpext(weight, _vector(_DOUBLE)))


def _side_by_side(builder: Any, left: Any, right: Any) -> Any:
    """The two pairs of a block, one after the other."""
    order = [n for lane in range(_WIDE) for n in (lane, lane + _WIDE)]
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_INT, 2 * _WIDE), order))


fill_words: Any = intrinsic(_fill_words)
fire_shots: Any = intrinsic(_fire_shots)
