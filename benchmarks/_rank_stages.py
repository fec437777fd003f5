"""One rank, or a process alone, that trains on a prepared log and prints what each stage of each step took, as JSON.

    python benchmarks/_rank_stages.py PREPARED SAMPLER THREADS STEPS

Started by ``ranks.py``, which sets what torchrun would.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import vitalrank as vr
from vitalrank.distributed import join_group
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.engines import mf_cpu, mf_ranks, rank_buffers
from vitalrank.engines.base import Totals
from vitalrank.kernels.cpu.training.step import USERS

BATCH, DIM = 8192, 64
WARM = 20  # steps that load compiled kernels and touch memory first


class Steps:
    """Seconds of each stage, by step."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.steps: list[dict[str, float]] = []
        self._stages: dict[str, float] | None = None

    def stage(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, timed where it is made inside a step."""

        def timed(*given: Any, **named: Any) -> Any:
            began = perf_counter()
            result = call(*given, **named)
            if self._stages is not None:
                own = f"{name}, users" if named.get("halves") == USERS else name
                self._stages[own] += perf_counter() - began
            return result

        return timed

    def step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call that is a step; the last one that is wanted ends the epoch."""

        def timed(engine: Any, *given: Any) -> Any:
            self._stages = defaultdict(float)
            began = perf_counter()
            result = call(engine, *given)
            step = perf_counter() - began
            self._stages["rest"] = step - sum(self._stages.values())  # Python between the stages
            self._stages["step"] = step
            self.steps.append(dict(self._stages))
            self._stages = None
            return result

        return timed


def first_steps(run_epoch: Callable[..., Totals], steps: Steps) -> Callable[..., Totals]:
    """An epoch of as many steps as are wanted: its totals then say that it is over."""

    def run(engine: Any, epoch: int, rate: Any, on_progress: Any) -> Totals:
        def stop(totals: Totals) -> None:
            if len(steps.steps) >= steps.wanted + WARM:
                totals.loss = float("nan")

        totals = run_epoch(engine, epoch, rate, stop)
        totals.loss = 0.0
        return totals

    return run


def main() -> None:
    folder, sampler, threads, wanted = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    steps, sent = Steps(wanted), [0, 0]
    group: ProcessGroup = join_group()
    ranked: Any = mf_ranks.RankedEngine
    for module, name, what in [
        (mf_ranks, "load_own", "load"), (rank_buffers, "lay_out", "lay out"), (mf_ranks, "train_step", "update"),
        (ranked, "_draw", "draw"), (mf_ranks.Contribution, "of", "message"),
        (rank_buffers.RankBuffers, "message", "message"), (rank_buffers.Message, "contributions", "message"),
        (mf_cpu.CpuEngine, "_draw", "draw"), (mf_cpu, "train_step", "update"),
    ]:  # fmt: skip
        setattr(module, name, steps.stage(what, getattr(module, name)))
    exchange = steps.stage("exchange", mf_ranks.RankBuffers.exchange)

    def counted(self: Any, message: Any) -> None:
        exchange(self, message)
        sent[0] += 1
        sent[1] += message.bytes_of(group.rank)

    mf_ranks.RankBuffers.exchange = counted  # type: ignore[method-assign]
    for kind in (ranked, mf_cpu.CpuEngine):
        kind._train_batch = steps.step(kind._train_batch)
        kind.run_epoch = first_steps(kind.run_epoch, steps)
    train = vr.Prepared.open(folder).part(rank=group.rank, ranks=group.size)
    options = {"batch": BATCH, "epochs": 1, "threads": threads, "seed": 0, "progress": False}
    vr.MF(DIM).fit(train, vr.samplers.find_sampler(sampler)(), **options)
    print(json.dumps({"steps": steps.steps[WARM:], "sent": sent, "positives": BATCH * len(steps.steps)}))


if __name__ == "__main__":
    main()
