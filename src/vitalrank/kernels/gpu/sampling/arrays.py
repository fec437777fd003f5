"""The arrays of ``kernels.proposals`` as tensors, with the sizes that a kernel cannot read off a pointer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitalrank.kernels import proposals as host


class ProposalArrays(NamedTuple):
    """The arrays of a proposal distribution: see :class:`vitalrank.kernels.proposals.Proposal`."""

    pool: Tensor  # (m,) or (1,) when the pool is the whole catalogue
    by_weight: Tensor  # (m,)
    starts: Tensor  # (c + 1,)
    mass: Tensor  # (c + 1,)
    weight: Tensor  # (c,)
    guide: Tensor  # (g,)
    first_class: Tensor  # (n,)
    accept_weight: Tensor  # (n,)
    sizes: Tensor  # (3,) items m, classes c, guide entries g


class Proposal(NamedTuple):
    """A proposal distribution on the device; what is not an array is compiled into the kernel."""

    arrays: ProposalArrays
    is_subset: bool  # the pool is a subset of the catalogue
    is_uniform: bool  # all items of the pool are equally likely, whatever the positive
    shots: int


class Seen(NamedTuple):
    """The items that each user has seen, on the device: see :class:`vitalrank.kernels.proposals.Seen`."""

    indptr: Tensor  # (U + 1,)
    items: Tensor  # (N,)
    bloom: Tensor  # (W,) the bits of an unsigned word
    unseen: Tensor  # (U,)


class Counter(NamedTuple):
    """The part of the random counter that one call shares; seed and step lie on the device, where graphs read them."""

    seed: Tensor  # (1,) int64, the bits of an unsigned word
    step: Tensor  # (1,) int64
    rows: Tensor  # (B,) int32, the bits of an unsigned word


def proposal_to_device(proposal: host.Proposal, device: torch.device) -> Proposal:
    """A proposal distribution on a device."""
    sizes = np.array([proposal.size, len(proposal.starts) - 1, len(proposal.guide)], np.int64)
    arrays = (
        proposal.pool,
        proposal.by_weight,
        proposal.starts,
        proposal.mass,
        proposal.weight,
        proposal.guide,
        proposal.first_class,
        proposal.accept_weight,
        sizes,
    )
    on_device = ProposalArrays(*(_filled(array, device) for array in arrays))
    return Proposal(on_device, bool(proposal.pool.size), proposal.is_uniform, proposal.shots)


def seen_to_device(seen: host.Seen, device: torch.device) -> Seen:
    """The seen items on a device."""
    return Seen(
        *(_filled(array, device) for array in (seen.indptr, seen.items, seen.bloom.view(np.int64), seen.unseen))
    )


def new_counter(seed: int, step: int, rows: Tensor) -> Counter:
    """The counter of one call, on the device of its rows."""
    signed = np.array([seed], np.uint64).view(np.int64)
    moved = torch.from_numpy(np.concatenate([signed, [step]])).to(rows.device)
    return Counter(moved[:1], moved[1:], rows)


def _filled(array: np.ndarray, device: torch.device) -> Tensor:
    """The array as a tensor; one zero for an empty one, so that there is a pointer to pass."""
    kept = array if array.size else np.zeros(1, array.dtype)
    return torch.from_numpy(np.ascontiguousarray(kept)).to(device)
