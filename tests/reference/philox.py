"""Philox 4x32-10 in plain integers (Salmon, Moraes, Dror and Shaw, SC 2011), and the streams the samplers read."""

from __future__ import annotations

from dataclasses import dataclass

WORD = 2**32

# What a stream is for.
PROPOSE, RANK, FACTOR, FALLBACK, SHUFFLE, INITIAL, CLUSTER = range(7)
MIX, CHOICE = 8, 9
STREAMS = 16  # stream = purpose + STREAMS * index of the negative among the k of a row


def philox(seed: int, step: int, row: int, turn: int, stream: int) -> tuple[int, int, int, int]:
    """Four 32-bit words for the key ``seed`` and the counter ``(step, row, turn, stream)``."""
    key = [seed % WORD, seed // WORD % WORD]
    counter = [step % WORD, row % WORD, turn % WORD, stream % WORD]
    for _ in range(10):
        high_0, low_0 = divmod(counter[0] * 0xD2511F53, WORD)
        high_1, low_1 = divmod(counter[2] * 0xCD9E8D57, WORD)
        counter = [high_1 ^ counter[1] ^ key[0], low_1, high_0 ^ counter[3] ^ key[1], low_0]
        key = [(key[0] + 0x9E3779B9) % WORD, (key[1] + 0xBB67AE85) % WORD]
    return counter[0], counter[1], counter[2], counter[3]


def below(word: int, n: int) -> int:
    """A number in 0 .. n - 1."""
    return word * n // WORD


def unit(word: int) -> float:
    """A float in [0, 1)."""
    return word / WORD


def fine_unit(high: int, low: int) -> float:
    """A float in [0, 1) with 53 random bits."""
    return ((high * WORD + low) >> 11) / 2**53


@dataclass
class Stream:
    """The random words of one negative of a row, a pair at a time: block ``turn // 2``, its half ``turn % 2``."""

    seed: int
    step: int
    row: int
    index: int
    turn: int = 0

    def pair(self) -> tuple[int, int]:
        """The next two words for a proposal."""
        words = self.words(PROPOSE, self.turn // 2)
        half = 2 * (self.turn % 2)
        self.turn += 1
        return words[half], words[half + 1]

    def words(self, purpose: int, turn: int) -> tuple[int, int, int, int]:
        """A whole block of four."""
        return philox(self.seed, self.step, self.row, turn, purpose + STREAMS * self.index)
