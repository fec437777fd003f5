"""Scores of looked-up rows of a table: in compiled code on the CPU, by matrix products on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitalrank.kernels import cpu
from vitalrank.kernels.cpu.training.lookups import query_gradients, row_gradients


class LookupScores(torch.autograd.Function):
    """``queries[b] . table[ids[b, x]]``, (B, C); the gradient of the table is sparse, each row of it named once.

    In torch the rows of all ids are copied, (B, C, d), for the product, its gradient and the table's: with 256
    negatives a position this is ten times slower than everything else in a step.
    """

    @staticmethod
    def forward(context: Any, queries: Tensor, table: Tensor, ids: Tensor, decay: float) -> Tensor:
        context.save_for_backward(queries, table, ids)
        context.decay = decay
        scores = np.empty(tuple(ids.shape), np.float32)
        asked, rows, wanted = (part.detach().contiguous().numpy() for part in (queries, table, ids))
        cpu.score(asked, rows, wanted, scores)
        return torch.from_numpy(scores)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        parts = (gradient, *context.saved_tensors)
        slopes, queries, table, ids = (part.detach().contiguous().numpy() for part in parts)
        rows, grads = row_gradients(slopes, queries, ids, table, context.decay)
        of_table = torch.sparse_coo_tensor(
            torch.from_numpy(rows)[None], torch.from_numpy(grads), tuple(table.shape), check_invariants=False
        )
        return torch.from_numpy(query_gradients(slopes, table, ids)), of_table, None, None


class ProductScores(torch.autograd.Function):
    """The same by the product with the whole table, for a GPU and a table of not many more rows than are looked up.

    It is torch alone. Products and the accumulating ``index_put_`` add up in a fixed order on a GPU too.
    """

    @staticmethod
    def forward(context: Any, queries: Tensor, table: Tensor, ids: Tensor, decay: float) -> Tensor:
        context.save_for_backward(queries, table, ids)
        context.decay = decay
        with torch.autocast(table.device.type, enabled=False):
            return (queries @ table.T).gather(1, ids)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, table, ids = context.saved_tensors
        slopes = gradient.new_zeros(len(queries), len(table))  # (B, n)
        rows = torch.arange(len(ids), device=ids.device)[:, None].expand_as(ids)
        with torch.autocast(table.device.type, enabled=False):
            slopes.index_put_((rows, ids), gradient, accumulate=True)
            of_queries, of_table = slopes @ table, slopes.T @ queries
        numbers = torch.arange(len(table), device=ids.device)
        named = torch.zeros_like(numbers)
        if context.decay:
            named.index_put_((ids.flatten(),), torch.ones_like(ids).flatten(), accumulate=True)
            of_table += context.decay * named[:, None] * table
        else:
            named[ids.flatten()] = 1
        # A row that is not named must not move. To leave it out the host would have to wait for the number of the
        # others, so the last of them is named in its place, with a gradient of 0.
        of_table = torch.where(named[:, None] > 0, of_table, 0.0)
        last = torch.where(named > 0, numbers, 0).amax()
        rows_named = torch.where(named > 0, numbers, last)
        sparse = torch.sparse_coo_tensor(rows_named[None], of_table, tuple(table.shape), check_invariants=False)
        return of_queries, sparse, None, None


PRODUCT_ROWS = 64  # of the table for each id of a row: up to so many the product with the whole table is faster


def lookup_scores(queries: Tensor, table: Tensor, ids: Tensor, decay: float = 0.0) -> Tensor:
    """``queries[b] . table[ids[b, x]]``; the gradient of each looked-up row takes ``decay`` times its value on top.

    Examples
    --------
    >>> table = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> lookup_scores(torch.ones(1, 2), table, torch.tensor([[1, 0]])).tolist()
    [[7.0, 3.0]]
    """
    scorer = ProductScores if ids.is_cuda else LookupScores
    scores: Tensor = scorer.apply(queries.float(), table, ids, decay)  # type: ignore[no-untyped-call]
    return scores
