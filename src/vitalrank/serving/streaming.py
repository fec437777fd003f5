"""Lists for every user of a log, to one Parquet file, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalrank._util.checks import parse_shard
from vitalrank._util.files import check_output
from vitalrank._util.parquet import is_marked_parquet, parquet_writer
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.interactions import Interactions, logs_of
from vitalrank.ranking.scorers import Scorer
from vitalrank.ranking.top_n import top_blocks

_CHUNK = 4096  # users that a rank ranks between two writes


def recommend_all(
    model: Scorer,
    path: str | os.PathLike[str],
    n: int = 10,
    *,
    exclude: Interactions | Sequence[Interactions] | None = None,
    shard: str | None = None,
    device: str | None = None,
    force: bool = False,
    group: ProcessGroup | None = None,
) -> int:
    """Write the ``n`` best unseen items of every user as rows ``user, rank, item, score``; returns their number.

    Parameters
    ----------
    path
        A Parquet file, written block by block and renamed when it is whole.
    shard
        ``"2/8"`` is the second of eight ranges of users, in the order of ``user_ids``; all together are the whole.
    force
        Replace a file that vitalrank did not write.
    group
        What :func:`vitalrank.distributed.join_group` gave: its ranks, which all call this, share the users; rank 0
        writes the file that one process would.

    Examples
    --------
    >>> import tempfile, pyarrow.parquet as pq, vitalrank as vr
    >>> log = vr.Interactions.from_arrays(["a", "a", "b"], ["x", "y", "x"])
    >>> file = tempfile.mkdtemp() + "/recs.parquet"
    >>> recommend_all(vr.MostPopular().fit(log), file), pq.read_table(file).to_pylist()
    (1, [{'user': 'b', 'rank': 1, 'item': 'y', 'score': 1.0}])
    """
    target, log, group = Path(path), model.train, group or ProcessGroup()
    first, last = shard_of(log.n_users, shard)
    group.on_rank_zero(lambda: check_output(target, lambda head: is_marked_parquet(target), force))
    n = min(n, log.n_items)
    kinds = {"user": pa.array(log.user_ids[:1]).type, "rank": pa.int32(), "item": pa.array(log.item_ids[:1]).type}
    schema = pa.schema({**kinds, "score": pa.float32()})
    total = 0
    with parquet_writer(target, schema, compression="zstd") if group.is_rank_zero else nullcontext() as writer:
        for users, items, scores in _rounds(model, first, last, n, logs_of(exclude), device, group):
            whose, ranks = np.nonzero(items >= 0)
            total += len(whose)
            if writer is None:
                continue
            columns = [
                log.user_ids[users[whose]],
                ranks + 1,
                log.item_ids[items[whose, ranks]],
                scores[whose, ranks],
            ]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.table(arrays, writer.schema))
    return total


def _rounds(
    model: Scorer, first: int, last: int, n: int, exclude: Sequence[Interactions], device: str | None,
    group: ProcessGroup,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:  # fmt: skip
    """Users in their order with their lists: in each round every rank ranks one chunk of them."""
    starts = range(first, last, _CHUNK * group.size)
    chunks = [np.arange(start + group.rank * _CHUNK, last)[:_CHUNK] for start in starts]
    ranked = top_blocks(model, np.concatenate([np.zeros(0, np.int64), *chunks]), n, exclude=exclude, device=device)
    items, scores = np.zeros((0, n), np.int64), np.zeros((0, n), np.float32)
    for start, chunk in zip(starts, chunks, strict=True):
        while len(items) < len(chunk):
            _, more_items, more_scores = next(ranked)
            items, scores = np.concatenate([items, more_items]), np.concatenate([scores, more_scores])
        group.barrier()
        of_all = [group.all_gather_rows(part[: len(chunk)]) for part in (items, scores)]
        items, scores = items[len(chunk) :], scores[len(chunk) :]
        yield np.arange(start, start + len(of_all[0])), of_all[0], of_all[1]


def shard_of(count: int, shard: str | None) -> tuple[int, int]:
    """First and last (excluded) of the i-th of n even ranges.

    Examples
    --------
    >>> [shard_of(10, f"{i}/3") for i in (1, 2, 3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    if shard is None:
        return 0, count
    part, parts = parse_shard(shard)
    return count * (part - 1) // parts, count * part // parts
