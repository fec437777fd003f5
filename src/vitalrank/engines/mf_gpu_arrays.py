"""What matrix factorization keeps on a GPU: tables, the log, the epoch's permutation and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitalrank.config import TrainConfig
from vitalrank.engines.base import VectorShape
from vitalrank.engines.mf import new_tables
from vitalrank.interactions import Interactions
from vitalrank.kernels.gpu import Counter, new_counter
from vitalrank.kernels.gpu.training.accumulators import Accumulators, new_accumulators
from vitalrank.kernels.gpu.training.batches import Positives, StepState
from vitalrank.kernels.gpu.training.optimizers import Tables
from vitalrank.kernels.gpu.training.permutation import Permutation, new_permutation
from vitalrank.kernels.gpu.training.stats import EpochStats
from vitalrank.kernels.optimizers import OPTIMIZERS

GRAPH_STEPS = 64  # of one captured graph: long enough to hide its launch, short enough to capture quickly


@dataclass(frozen=True)
class DeviceArrays:
    """The memory of the engine, on its device."""

    tables: Tables
    positives: Positives
    permutation: Permutation
    step_state: StepState
    stats: EpochStats
    user_acc: Accumulators
    counter: Counter


def new_device_arrays(
    train: Interactions, config: TrainConfig, shape: VectorShape, sampler_seed: int, device: str
) -> DeviceArrays:
    """Tables at their initial values, and every other array whose size does not depend on the number of negatives."""
    size, width = len(train), shape.width
    batch = min(config.batch_of(size), size)
    slots = OPTIMIZERS[config.optimizer].slots
    host = new_tables(train, shape, 0, config.seed)
    rows = torch.arange(batch, dtype=torch.int32, device=device)
    weights = None if train.weights is None else torch.tensor(train.weights, device=device)
    return DeviceArrays(
        Tables(
            torch.from_numpy(np.ascontiguousarray(host.users[:, 0])).to(device),
            torch.from_numpy(host.items).to(device),
            torch.zeros((train.n_users, slots, width), device=device),
            torch.zeros((train.n_items, slots, width), device=device),
        ),
        Positives(_to_device(train.users, device), _to_device(train.items, device), weights, batch),
        new_permutation(torch.device(device)),
        StepState(
            torch.zeros(2, dtype=torch.int64, device=device),
            torch.zeros(-(-size // batch), device=device),
            torch.zeros(GRAPH_STEPS, dtype=torch.int64, device=device),
        ),
        EpochStats(
            torch.zeros(size, device=device),
            torch.zeros(size, device=device),
            torch.zeros(size, dtype=torch.int32, device=device),
            torch.zeros(size, dtype=torch.uint8, device=device),
        ),
        new_accumulators(train.n_users, width, batch, device),
        new_counter(sampler_seed, 0, rows),
    )


def bytes_needed(train: Interactions, width: int, config: TrainConfig) -> int:
    """Device memory that the engine and its sampler keep."""
    slots = OPTIMIZERS[config.optimizer].slots
    per_row = 4 * width * (1 + slots) + 12  # values and optimizer state, owner and multi-hit step
    per_positive = 8 + 13 + 4 + 4  # user and item, statistics, the sampler's sorted row and Bloom filter
    per_positive += 0 if train.weights is None else 4
    per_user = 8 + 64 + 4  # the sampler's row start, Bloom filter and number of unseen items
    return (train.n_users + train.n_items) * per_row + len(train) * per_positive + train.n_users * per_user


def _to_device(array: NDArray[Any], device: str) -> Tensor:
    return torch.from_numpy(np.array(array, np.int32)).to(device)
