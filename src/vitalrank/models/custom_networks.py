"""The networks of a caller's encoder and item table."""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor, nn

from vitalrank.engines.network import device_of, eval_mode
from vitalrank.errors import SettingError
from vitalrank.models.custom_modules import explain_failure, first_and_last
from vitalrank.models.networks import DotNetwork, SequenceNetwork

ItemModule = nn.Module | nn.Parameter


class CustomNetwork(DotNetwork):
    """The network of a caller's encoder and item table."""

    uses_global_rng = True
    n_items = 0

    def __init__(self, encoder: nn.Module, item_table: ItemModule, length: int, clip: float | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.items = _as_embedding(item_table) if isinstance(item_table, nn.Parameter) else item_table
        self.length = length
        self.clip = clip

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        queries: Tensor = self.encoder(users) if context is None else self.encoder(users, context)
        return queries

    def rows(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.items(ids)
        return vectors

    def table(self) -> Tensor:
        if _is_plain_table(self.items):
            return self.items.weight.detach()
        with eval_mode(self.items):
            return self.rows(torch.arange(self.n_items, device=device_of(self)))

    def check(self, n_users: int, n_items: int) -> None:
        """Refuse modules that do not make vectors of the ids of a log."""
        self.n_items = n_items
        users = first_and_last(n_users, self)  # (2,)
        context = users.new_full((2, self.length), -1) if self.length else None
        with eval_mode(self):
            with explain_failure("item_table", f"item ids 0 to {n_items - 1}"):
                found = tuple(self.table().shape)
            given = f"user ids 0 and {n_users - 1}" + (" and contexts" if self.length else "")
            with explain_failure("encoder", given):
                asked = tuple(self.encode(users, context).shape)
                self.check_causal(users, first_and_last(n_items, self))
        if len(found) != 2 or found[0] != n_items or asked != (2, found[1]):
            raise SettingError(
                f"item_table is {found} and the encoder makes {asked} of two users; they must be "
                f"({n_items}, d) and (2, d) for this log."
            )

    def check_causal(self, users: Tensor, ids: Tensor) -> None:
        """An encoder of one query for each context may read all of it."""


class CustomSequenceNetwork(CustomNetwork, SequenceNetwork):
    """The same with an encoder that makes a query after each item."""

    def encode_positions(self, users: Tensor, context: Tensor) -> Tensor:
        queries: Tensor = self.encoder(users, context)
        return queries

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        return SequenceNetwork.encode(self, users, context)

    def check_causal(self, users: Tensor, ids: Tensor) -> None:
        """Refuse an encoder whose queries are not (B, L, d), or change with the items behind them."""
        context = ids[:1].repeat(2, self.length)  # (2, L)
        queries = self.encode_positions(users, context)
        if queries.dim() != 3 or queries.shape[:2] != context.shape:
            raise SettingError(
                f"with all_positions=True the encoder must make one query for each item, (B, L, d); of contexts "
                f"{tuple(context.shape)} it makes {tuple(queries.shape)}."
            )
        for last in (ids[1:], ids.new_full((1,), -1)):
            other = self.encode_positions(users, torch.cat([context[:, :-1], last.expand(2, 1)], 1))
            if not torch.allclose(queries[:, :-1], other[:, :-1], rtol=1e-3, atol=1e-5):
                raise SettingError(
                    "the encoder's queries change with the items behind them, which are the positives; "
                    "use causal attention, or a recurrent layer in one direction."
                )


def _is_plain_table(module: nn.Module) -> TypeGuard[nn.Embedding]:
    """Whether a lookup returns rows of its weight unchanged."""
    if not isinstance(module, nn.Embedding) or module.max_norm is not None:
        return False
    return type(module).forward is nn.Embedding.forward


def _as_embedding(vectors: nn.Parameter) -> nn.Embedding:
    """An embedding whose weight is the parameter itself."""
    table = nn.Embedding(vectors.shape[0], vectors.shape[1], sparse=True, _weight=vectors.detach())
    table.weight = vectors
    return table
