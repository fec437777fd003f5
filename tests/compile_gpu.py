"""Compile the GPU's kernels for a card that is not here: run by test_gpu.py in a process of its own.

Triton's driver is replaced by one that names a target; every launch stops after compilation. Prints the kernels' names.
"""

from __future__ import annotations

import numpy as np
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

import vitalrank as vr
from sampler_calls import device_request
from sampler_cases import VARIANTS, make_world

COMPILED: set[str] = set()
SAMPLERS = (
    "uni",
    "pop",
    "dns",
    "lfm-d",
    "vins",
    "vins-limit",
    "lfm-w",
    "aobpr",
    "aobpr-exact",
    "pris",
    "irgan",
    "mixed",
    "in-batch",
)


class Elsewhere:
    """A driver without a device."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_active_torch_device(self):
        return torch.device("cpu")


def compile_only(kernel, grid):
    def launch(*args, **options):
        kernel.run(*args, grid=grid, warmup=True, **options)
        COMPILED.add(kernel.__name__)

    return launch


def main() -> None:
    driver.set_active(Elsewhere())
    JITFunction.__getitem__ = compile_only
    torch.empty = torch.zeros  # what no kernel fills must be harmless
    from vitalrank.config import TrainConfig
    from vitalrank.engines.base import VectorShape
    from vitalrank.engines.mf_gpu import GpuEngine
    from vitalrank.kernels.gpu import new_counter
    from vitalrank.kernels.gpu.training.dropout import drop
    from vitalrank.ranking.device_top_n import DeviceRanker

    world = make_world(rows=9)
    for name in SAMPLERS:
        sampler = {**VARIANTS, "mixed": vr.Mixed(vr.Uniform(), vr.Popularity()), "in-batch": vr.InBatch()}[name]
        bound = sampler.bind(world.log)
        try:
            bound.draw(device_request(bound, "cpu", world.batch))
        except RuntimeError:
            assert name == "aobpr-exact"  # it looks at a rank that was not drawn
    log = vr.datasets.synthetic(users=12, items=15, interactions=60, seed=0)
    GpuEngine(log, vr.VINS().bind(log), TrainConfig(batch=16), VectorShape(64, True), "cpu").run_epoch(1, float, id)
    drop(torch.ones(9), 0.5, new_counter(0, 0, torch.zeros(1, dtype=torch.int32)), 1)
    model = vr.MF(dim=5).fit(log, vr.Uniform(), epochs=1)
    csr = log.csr
    DeviceRanker(model, csr.indptr.astype(np.int64), csr.indices, "cpu").best(np.arange(12), 10)
    print(*sorted(COMPILED))


if __name__ == "__main__":
    main()
