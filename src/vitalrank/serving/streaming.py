"""Lists for every user of a log, to one Parquet file, in bounded memory."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from vitalrank._util.display import quoted
from vitalrank._util.files import check_output
from vitalrank._util.parquet import is_marked_parquet, parquet_writer
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, logs_of
from vitalrank.ranking.scorers import Scorer
from vitalrank.ranking.top_n import top_blocks

_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


def recommend_all(
    model: Scorer,
    path: str | os.PathLike[str],
    n: int = 10,
    *,
    exclude: Interactions | Sequence[Interactions] | None = None,
    shard: str | None = None,
    device: str | None = None,
    force: bool = False,
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

    Examples
    --------
    >>> import tempfile, pyarrow.parquet as pq, vitalrank as vr
    >>> log = vr.Interactions.from_arrays(["a", "a", "b"], ["x", "y", "x"])
    >>> file = tempfile.mkdtemp() + "/recs.parquet"
    >>> recommend_all(vr.MostPopular().fit(log), file), pq.read_table(file).to_pylist()
    (1, [{'user': 'b', 'rank': 1, 'item': 'y', 'score': 1.0}])
    """
    target, log = Path(path), model.train
    first, last = shard_of(log.n_users, shard)
    check_output(target, lambda head: is_marked_parquet(target), force)
    users = np.arange(first, last)
    n = min(n, log.n_items)
    kinds = {"user": pa.array(log.user_ids[:1]).type, "rank": pa.int32(), "item": pa.array(log.item_ids[:1]).type}
    schema = pa.schema({**kinds, "score": pa.float32()})
    total = 0
    with parquet_writer(target, schema, compression="zstd") as writer:
        for rows, items, scores in top_blocks(model, users, n, exclude=logs_of(exclude), device=device):
            whose, ranks = np.nonzero(items >= 0)
            columns = [
                log.user_ids[users[rows][whose]],
                ranks + 1,
                log.item_ids[items[whose, ranks]],
                scores[whose, ranks],
            ]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.table(arrays, writer.schema))
            total += len(whose)
    return total


def shard_of(count: int, shard: str | None) -> tuple[int, int]:
    """First and last (excluded) of the i-th of n even ranges.

    Examples
    --------
    >>> [shard_of(10, f"{i}/3") for i in (1, 2, 3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    if shard is None:
        return 0, count
    found = _SHARD.fullmatch(shard) if isinstance(shard, str) else None
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise SettingError(f"shard {quoted(shard)} is not I/N with I from 1 to N, such as 1/8.")
    part, parts = int(found[1]), int(found[2])
    return count * (part - 1) // parts, count * part // parts
