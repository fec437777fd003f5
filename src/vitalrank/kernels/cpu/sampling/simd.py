"""Random words and batched accept/reject in vector registers.

Emitted as vector instructions, since LLVM unrolls such short loops or vectorises them at half the width. It lowers the
vectors to scalars on machines without such registers.
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
_WIDTH = 4  # words of a vector: wider ones lower the clock of many processors
_FIRSTS = range(0, LANES, _WIDTH)  # the first block of each vector
_GATHER = f"llvm.masked.gather.v{_WIDTH}f32.v{_WIDTH}p0"
_PREFIX = (types.uint64,) * 5  # seed, step, row, stream, first block


def _vector(kind: Any) -> Any:
    return ir.VectorType(kind, _WIDTH)


def _constant(kind: Any, value: Any) -> Any:
    """A vector that repeats a constant."""
    return ir.Constant(_vector(kind), [value] * _WIDTH)


def _broadcast(builder: Any, value: Any) -> Any:
    """A vector that repeats a value."""
    first = builder.insert_element(ir.Constant(_vector(value.type), ir.Undefined), value, _INT(0))
    return builder.shuffle_vector(first, first, _constant(_INT, 0))


def _low(builder: Any, words: Any) -> Any:
    return builder.and_(words, _constant(_WORD, _LOW))


def _high(builder: Any, words: Any) -> Any:
    return builder.lshr(words, _constant(_WORD, 32))


def _philox(builder: Any, seed: Any, step: Any, row: Any, stream: Any, block: Any) -> list[list[Any]]:
    """The four words of LANES blocks, a vector of blocks after the other, as ``rng.philox`` makes them.

    Rounds are interleaved over the vectors, which hides latency; upper halves are cleared last.
    """
    keys = [_broadcast(builder, seed), _broadcast(builder, builder.lshr(seed, _WORD(32)))]
    a, b, d = (_broadcast(builder, number) for number in (step, row, stream))
    lanes = [ir.Constant(_vector(_WORD), list(range(first, first + _WIDTH))) for first in _FIRSTS]
    groups = [[a, b, builder.add(_broadcast(builder, block), blocks), d] for blocks in lanes]
    for _ in range(ROUNDS):
        groups = [_round(builder, *words, *keys) for words in groups]
        keys = [builder.add(key, _constant(_WORD, more)) for key, more in zip(keys, ROUND_KEYS, strict=True)]
    return [[_low(builder, word) for word in words] for words in groups]


def _round(builder: Any, a: Any, b: Any, c: Any, d: Any, key_0: Any, key_1: Any) -> list[Any]:
    left, right = (builder.mul(_low(builder, x), _constant(_WORD, y)) for x, y in zip((a, c), ROUND_WORDS, strict=True))
    new_a = builder.xor(builder.xor(_high(builder, right), b), key_0)
    new_c = builder.xor(builder.xor(_high(builder, left), d), key_1)
    return [new_a, right, new_c, left]


def _gather(builder: Any, array: Any, positions: Any) -> Any:
    """``array[positions]`` of 32-bit floats."""
    start = _broadcast(builder, builder.ptrtoint(array, _WORD))
    pointers = _vector(ir.IntType(8).as_pointer())
    addresses = builder.inttoptr(builder.add(start, builder.shl(positions, _constant(_WORD, 2))), pointers)
    kind = ir.FunctionType(_vector(_FLOAT), [pointers, _INT, _vector(_BIT), _vector(_FLOAT)])
    gather = cgutils.get_or_insert_function(builder.module, kind, _GATHER)
    return builder.call(gather, [addresses, _INT(4), _constant(_BIT, 1), _constant(_FLOAT, 0.0)])


def _store(builder: Any, vector: Any, address: Any, align: int) -> None:
    builder.store(vector, builder.bitcast(address, vector.type.as_pointer()), align=align)


def _fill_words(
    typing_context: Any, seed: Any, step: Any, row: Any, stream: Any, block: Any, words: Any
) -> Any:  # fmt: skip
    """Emit the filling of ``words`` (4, LANES) with the blocks from ``block`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[5])(context, builder, args[5]).data
        for first, made in zip(_FIRSTS, _philox(builder, *args[:5]), strict=True):
            for number, vector in enumerate(made):
                _store(builder, vector, builder.gep(data, [_WORD(number * LANES + first)]), align=8)
        return context.get_dummy_value()

    return types.void(*_PREFIX, words), generate


def _accept_reject(
    typing_context: Any, seed: Any, step: Any, row: Any, stream: Any, block: Any, size: Any, accept_weight: Any,
    pool_weights: Any, positions: Any, weights: Any,
) -> Any:  # fmt: skip
    """Emit the accept/reject of all pairs ``a, b`` of the blocks from ``block`` on; returns a bit mask of the accepted.

    A pair proposes position ``a * size // 2**32`` of the pool, of weight ``pool_weights[position]``, and is accepted if
    ``b / 2**32 * accept_weight < weight``. Both go to ``positions`` and ``weights`` (2 * LANES,).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pool_weights, positions, weights = (
            context.make_array(signature.args[n])(context, builder, args[n]).data for n in (7, 8, 9)
        )
        count = _low(builder, _broadcast(builder, args[5]))
        threshold = _broadcast(builder, builder.fmul(args[6], _DOUBLE(_UNIT)))
        found = _WORD(0)
        for first, words in zip(_FIRSTS, _philox(builder, *args[:5]), strict=True):
            a, b, c, d = words
            halves = [
                _accept(builder, a_word, b_word, count, threshold, pool_weights) for a_word, b_word in ((a, b), (c, d))
            ]
            position, weight, accepted = (_interleave(builder, *both) for both in zip(*halves, strict=True))
            _store(builder, position, builder.gep(positions, [_WORD(2 * first)]), align=8)
            _store(builder, weight, builder.gep(weights, [_WORD(2 * first)]), align=4)
            bits = builder.zext(builder.bitcast(accepted, ir.IntType(2 * _WIDTH)), _WORD)
            found = builder.or_(found, builder.shl(bits, _WORD(2 * first)))
        return found

    return types.uint64(*_PREFIX, types.int64, types.float64, pool_weights, positions, weights), generate


def _accept(
    builder: Any, a_word: Any, b_word: Any, count: Any, threshold: Any, pool_weights: Any
) -> tuple[Any, Any, Any]:
    """Positions proposed by a vector of pairs, their weights, and whether they are accepted."""
    position = _high(builder, builder.mul(a_word, count))
    weight = _gather(builder, pool_weights, position)
    left = builder.fmul(builder.uitofp(b_word, _vector(_DOUBLE)), threshold)
    return position, weight, builder.fcmp_ordered("<", left, builder.fpext(weight, _vector(_DOUBLE)))


def _interleave(builder: Any, left: Any, right: Any) -> Any:
    """Interleave two vectors, so that the two pairs of a block are adjacent."""
    order = [n for lane in range(_WIDTH) for n in (lane, lane + _WIDTH)]
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_INT, 2 * _WIDTH), order))


fill_words: Any = intrinsic(_fill_words)
accept_reject: Any = intrinsic(_accept_reject)
