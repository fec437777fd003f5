"""Scores of looked-up rows of a table, in compiled code on the CPU."""

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
    def backward(context: Any, gradient: Tensor) -> Any:
        parts = (gradient, *context.saved_tensors)
        slopes, queries, table, ids = (part.detach().contiguous().numpy() for part in parts)
        rows, grads = row_gradients(slopes, queries, ids, table, context.decay)
        of_table = torch.sparse_coo_tensor(
            torch.from_numpy(rows)[None], torch.from_numpy(grads), tuple(table.shape), check_invariants=False
        )
        return torch.from_numpy(query_gradients(slopes, table, ids)), of_table, None, None


def lookup_scores(queries: Tensor, table: Tensor, ids: Tensor, decay: float = 0.0) -> Tensor:
    """``queries[b] . table[ids[b, x]]``; the gradient of each looked-up row takes ``decay`` times its value on top.

    Examples
    --------
    >>> table = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> lookup_scores(torch.ones(1, 2), table, torch.tensor([[1, 0]])).tolist()
    [[7.0, 3.0]]
    """
    scores: Tensor = LookupScores.apply(queries.float(), table, ids, decay)  # type: ignore[no-untyped-call]
    return scores
