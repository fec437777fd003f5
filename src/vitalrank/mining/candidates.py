"""The best-scored items of a block of queries, in blocks of items, and the scores of given pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.errors import DataError
from vitalrank.kernels.cpu.ranking.top_n import top_of_tile

QUERIES = 512  # of a block
ITEMS = 1 << 14  # of a block


class Vectors:
    """Rows of a table as float32, scaled to length 1 for cosine similarity; read as they are asked for."""

    def __init__(self, table: Array, name: str, normalize: bool) -> None:
        self.table, self.name, self.normalize = table, name, normalize

    def __len__(self) -> int:
        return len(self.table)

    def rows(self, at: Array | slice) -> NDArray[np.float32]:
        """Vectors of a slice, or of row numbers of any shape."""  # (..., d)
        vectors: NDArray[np.float32] = np.array(self.table[at], np.float32, order="C")
        if not np.isfinite(vectors).all():
            raise DataError(f"{self.name} hold values that are NaN or infinite; encode them again.")
        if self.normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors

    @property
    def whole(self) -> NDArray[np.float32] | None:
        """The table itself where a sampler can read it in place, else None."""
        plain = self.table.dtype == np.float32 and self.table.flags.c_contiguous and not self.normalize
        return self.table if plain else None


def pair_scores(queries: NDArray[np.float32], items: Vectors, ids: Array) -> NDArray[np.float32]:
    """Scores of items (B, n) for queries (B, d), in chunks; -inf where the id is -1."""  # (B, n)
    scores = np.empty(ids.shape, np.float32)
    chunk = max(1, (1 << 22) // max(1, ids.shape[1] * queries.shape[1]))
    for start in range(0, len(ids), chunk):
        part = slice(start, start + chunk)
        scores[part] = np.einsum("bnd,bd->bn", items.rows(np.maximum(ids[part], 0)), queries[part])
    scores[ids < 0] = -np.inf
    return scores


def best_items(queries: NDArray[np.float32], items: Vectors, n: int) -> tuple[Array, Array]:
    """Ids and scores (B, n) of the best items, best first; of equal scores the lower id first."""
    n = min(n, len(items))
    best_ids = np.full((len(queries), n), -1, np.int64)
    best_scores = np.full((len(queries), n), -np.inf, np.float32)
    nobody, nothing = np.zeros(len(queries), np.int64), np.zeros(0, np.int32)
    for start in range(0, len(items), ITEMS):
        tile = np.ascontiguousarray(queries @ items.rows(slice(start, start + ITEMS)).T)
        width = min(n, tile.shape[1])
        ids, scores = np.empty((len(queries), width), np.int64), np.empty((len(queries), width), np.float32)
        top_of_tile(tile, nobody, np.zeros(2, np.int64), nothing, scores, ids)
        ids, scores = np.concatenate([best_ids, ids + start], 1), np.concatenate([best_scores, scores], 1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :n]  # earlier blocks have the lower ids
        best_ids, best_scores = np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)
    return best_ids, best_scores
