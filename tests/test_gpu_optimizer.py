"""The optimizer for GPUs makes the moves of the compiled one; it runs on any device, so it is compared on the CPU."""

import numpy as np
import pytest
import torch

from vitalrank.config import OPTIMIZER_NAMES
from vitalrank.engines.gpu_optimizer import UPDATES, GpuOptimizer, coalesce_rows, scale_and_clip
from vitalrank.engines.torch_optimizer import TableOptimizer
from vitalrank.kernels.optimizers import OPTIMIZERS


class Pair(torch.nn.Module):
    """A table that is looked up, and a layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(9, 4, sparse=True)
        self.layer = torch.nn.Linear(4, 3)
        self.unused = torch.nn.Linear(2, 2)


def moved(kind, optimizer, clip):
    """Values and touched rows after some steps, each with repeated rows and two lookups."""
    network = Pair()
    mover = kind(network, optimizer)
    rng = torch.Generator().manual_seed(1)
    touched = []
    for size in OPTIMIZERS[optimizer].step_sizes(lambda share: 0.05, positives=5, batch=1, done=0):
        for _ in range(2):
            ids = torch.randint(0, 9, (6,), generator=rng)
            (network.layer(network.table(ids)) * torch.randn(6, 3, generator=rng)).sum().backward()
        rows = mover.step(torch.tensor([size], dtype=torch.float32), 12, clip)
        touched.append({name: set(places.tolist()) for name, places in rows.items()})
        assert all(parameter.grad is None for parameter in network.parameters())
    return {name: value.detach() for name, value in network.named_parameters()}, touched


@pytest.mark.parametrize("clip", [None, 0.2])
@pytest.mark.parametrize("optimizer", OPTIMIZER_NAMES)
def test_it_moves_as_the_compiled_one_does(optimizer, clip):
    values, touched = moved(GpuOptimizer, optimizer, clip)
    expected, rows = moved(TableOptimizer, optimizer, clip)
    assert touched == rows
    assert not torch.allclose(values["table.weight"], Pair().table.weight, atol=1e-3)
    for name, value in expected.items():
        torch.testing.assert_close(values[name], value, rtol=1e-4, atol=1e-6)


def test_every_optimizer_that_can_be_chosen_is_there_on_both_devices():
    assert set(OPTIMIZER_NAMES) == OPTIMIZERS.keys() == UPDATES.keys()


def test_its_state_can_be_taken_back():
    network = Pair()
    network.table(torch.tensor([1, 1, 2])).sum().backward()
    first = GpuOptimizer(network, "adam")
    first.step(torch.tensor([0.1]), 3, None)
    second = GpuOptimizer(network, "adam")
    second.load(first.state)
    assert first.state["table.weight"].any()
    for name, array in first.state.items():
        np.testing.assert_array_equal(second.state[name], array)


def test_a_lookup_of_nothing_moves_nothing():
    network = Pair()
    before = network.table.weight.detach().clone()
    network.table(torch.zeros(0, dtype=torch.int64)).sum().backward()
    assert GpuOptimizer(network, "adam").step(torch.tensor([0.1]), 1, None) == {}
    assert torch.equal(network.table.weight, before)


def test_rows_are_summed_in_the_order_of_their_places():
    rng = torch.Generator().manual_seed(0)
    places, pulls = torch.randint(0, 5, (40,), generator=rng), torch.randn(40, 3, generator=rng)
    rows, sums = coalesce_rows(places, pulls)
    assert len(rows) == len(sums) == 40
    assert sorted(set(rows.tolist())) == sorted(set(places.tolist()))
    for row, total in zip(rows.tolist(), sums, strict=True):
        torch.testing.assert_close(total, pulls[places == row].sum(0))


def test_clipping_keeps_the_direction_and_a_zero_gradient():
    gradients = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]
    scale_and_clip(gradients, positives=1, clip=1.0)
    torch.testing.assert_close(torch.cat(gradients), torch.tensor([0.6, 0.0, 0.8]))
    nothing = [torch.zeros(2)]
    scale_and_clip(nothing, positives=1, clip=1.0)
    assert torch.equal(nothing[0], torch.zeros(2))
