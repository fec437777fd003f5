"""A small world for the tests of the samplers: a log with every kind of user and item, vectors whose scores tie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitalrank.interactions import Interactions
from vitalrank.samplers import AOBPR, DNS, LFMW, PRIS, SA, SAMPLERS, VINS, MixGCF, Sampler

N_ITEMS, WIDTH = 12, 4

# Items seen by each user: none, some, all but one, all. Items 10 and 11 have only the heavy users; 9 has degree 2.
SEEN = [
    [],
    [0],
    [0, 1, 2],
    [0, 1, 3, 5],
    [0, 2, 4, 6, 8],
    [1, 0, 7, 3],
    [j for j in range(N_ITEMS) if j != 9],
    list(range(N_ITEMS)),
    [0, 1, 2, 3, 4],
]
NEWCOMER, ALL_BUT_ONE, ALL = 0, 6, 7


def make_log(seen: list[list[int]], n_items: int) -> Interactions:
    """A log with these rows; users without rows and items without users are allowed."""
    indptr = np.concatenate([[0], np.cumsum([len(items) for items in seen])]).astype(np.int64)
    items = np.array([j for row in seen for j in row], np.int32)
    return Interactions(indptr, items, None, np.arange(len(seen)), np.arange(n_items))


def dyadic(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Quarters from -1 to 1: their dot products are exact in any order, and tie often."""
    return (rng.integers(-4, 5, shape) / 4).astype(np.float32)


@dataclass(frozen=True)
class World:
    """A log, an item table, and a batch of B positives."""

    log: Interactions
    table: np.ndarray  # (n, d)
    queries: np.ndarray  # (B, d)
    users: np.ndarray  # (B,)
    positives: np.ndarray  # (B,)

    @property
    def batch(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The four arguments of a call."""
        return self.queries, self.table, self.users, self.positives

    def dot(self, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """The dot product as a scorer."""
        return np.einsum("rd,rcd->rc", self.queries[rows], self.table[ids])

    def seen(self, user: int) -> set[int]:
        """Items of a user."""
        return set(self.log.items[self.log.indptr[user] : self.log.indptr[user + 1]].tolist())


def make_world(seed: int = 0, rows: int = 36, seen: list[list[int]] | None = None, n_items: int = N_ITEMS) -> World:
    """Every user several times over, with positives of any kind, repeats among them."""
    seen = SEEN if seen is None else seen
    rng = np.random.default_rng(seed)
    users = np.arange(rows) % len(seen)
    positives = rng.integers(0, n_items, rows)
    return World(make_log(seen, n_items), dyadic(rng, n_items, WIDTH), dyadic(rng, rows, WIDTH), users, positives)


# Every sampler of the registry (two of them shortened), and the variants that run other code.
VARIANTS: dict[str, Sampler] = {name: sampler() for name, sampler in SAMPLERS.items()} | {
    "lfm-w": LFMW(kappa=64),
    "sa": SA(candidates=16),
    "pris": PRIS(candidates=16),
    "mixgcf": MixGCF(candidates=8),
    "dns-top": DNS(candidates=6, top=3),
    "dns-ceiling": DNS(candidates=6, ceiling=8.0),
    "vins-ceiling": VINS(kappa=9, ceiling=8.0),
    "vins-limit": VINS(shots=None, kappa=5),
    "vins-one-shot": VINS(beta=1.0, shots=1, kappa=1),
    "vins-hard": VINS(margin=-1.0, kappa=40),
    "lfm-w-short": LFMW(margin=0.25, kappa=3, weight="log2"),
    "aobpr-exact": AOBPR(exact=True),
    "pris-static": PRIS(candidates=16, clusters=0),
    "pris-few": PRIS(candidates=16, clusters=3, proposal="uniform"),
}
KEEPS_ALL = {"sa", "pris", "pris-static", "pris-few"}  # k is their number of candidates

WORLD = make_world(seed=0, rows=144)  # enough rows for four threads to have a share
