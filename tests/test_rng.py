"""Philox: the published vectors, the plain definition, and the streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from reference import philox as plain
from vitalrank.kernels import rng
from vitalrank.kernels.cpu.sampling.simd import fill_words

# Published with the generator: counter, key, words.
VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
WORDS = st.integers(0, 2**32 - 1)


def words(text: str) -> list[int]:
    """Hexadecimal words."""
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_published_vectors(counter, key, expected):
    low, high = words(key)
    seed = low + (high << 32)
    assert list(plain.philox(seed, *words(counter))) == words(expected)
    assert [int(word) for word in rng.philox(np.uint64(seed), *words(counter))] == words(expected)


@given(st.integers(0, 2**64 - 1), WORDS, WORDS, WORDS, WORDS)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_kernel_equals_the_plain_definition(seed, step, row, turn, stream):
    given_words = rng.philox(np.uint64(seed), step, row, turn, stream)
    assert tuple(int(word) for word in given_words) == plain.philox(seed, step, row, turn, stream)


@given(WORDS, WORDS, st.integers(1, 2**31))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_numbers_from_words(high, low, n):
    assert rng.below(high, n) == plain.below(high, n) < n
    assert rng.unit(high) == plain.unit(high) < 1
    assert rng.fine_unit(high, low) == plain.fine_unit(high, low) < 1


@njit
def _load(words, place, turn):
    seed, step, row, stream = place
    fill_words(seed, step, row, stream, (turn // rng.PAIRS) * rng.LANES, words)


@pytest.mark.parametrize(("seed", "step"), [(9, 4), (2**64 - 1, 2**32 - 1)])
def test_pairs_of_a_stream_from_any_turn(seed, step):
    place = (np.uint64(seed), step, np.uint32(2), plain.PROPOSE + plain.STREAMS * 3)
    for start in (0, 5, 16, 31):
        stream = plain.Stream(seed, step, 2, index=3, turn=start)
        buffer = rng.new_words()
        _load(buffer, place, start)
        for turn in range(start, start + 40):
            if turn % rng.PAIRS == 0:
                _load(buffer, place, turn)
            a, b = rng.word_pair(buffer, turn)
            assert (int(a), int(b)) == stream.pair()


def test_purposes_do_not_share_a_stream():
    names = ("PROPOSE", "RANK", "FACTOR", "FALLBACK", "SHUFFLE", "INITIAL", "CLUSTER")
    numbers = [getattr(rng, name) for name in names]
    assert numbers == [getattr(plain, name) for name in names]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) < rng.STREAMS == plain.STREAMS
