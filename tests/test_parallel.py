"""Parallel loops over rows: every row once, whatever the number of threads, and errors come through."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numba import njit

from vitalrank._util.threads import limited
from vitalrank.kernels.cpu.runtime import parallel as parts
from vitalrank.kernels.cpu.runtime.intrinsics import atomic_load
from vitalrank.kernels.cpu.runtime.parallel import barrier, parallel_for, run_parallel, with_barrier


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 1000])
def test_every_row_belongs_to_one_shard(rows, threads):
    found = []
    with limited(threads):
        parallel_for(rows, lambda begin, end: found.append((begin, end)))
    assert [row for begin, end in sorted(found) for row in range(begin, end)] == list(range(rows))
    assert len(found) <= threads


def test_few_cheap_rows_stay_on_one_thread(monkeypatch):
    monkeypatch.setattr(parts, "MIN_SHARD_COST", 1000)
    for rows, cost, expected in ((999, 1, 1), (999, 3, 2), (2000, 1, 2)):
        found = []
        with limited(4):
            parallel_for(rows, lambda begin, end, found=found: found.append(begin), cost)
        assert len(found) == expected


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_comes_through_after_the_others_are_done(failing):
    done = []

    def work(number):
        if number == failing:
            raise ValueError(number)
        done.append(number)

    with pytest.raises(ValueError, match=str(failing)):
        run_parallel(*(lambda number=number: work(number) for number in range(3)))
    assert sorted(done) == [number for number in range(3) if number != failing]


def test_blocked_workers_are_woken():
    def slowly(number):
        time.sleep(0.02)  # longer than waiters spin
        return number

    for _ in range(3):
        assert run_parallel(*(lambda number=number: slowly(number) for number in range(3))) == [0, 1, 2]
        time.sleep(0.02)
        assert run_parallel(lambda: 1, lambda: slowly(2), lambda: 3) == [1, 2, 3]


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_no_thread_passes_a_barrier_before_all_have_arrived(n_threads):
    left = np.zeros((3, n_threads), np.int64)
    with_barrier(n_threads, lambda thread, arrivals: _walk(thread, n_threads, arrivals, left))
    for number, seen in enumerate(left):
        expected = (number + 1) * n_threads if n_threads > 1 else 0  # one thread skips the barrier
        assert (seen >= expected).all()  # so many had arrived when each went on
        assert n_threads > 1 or not seen.any()


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_opens_the_barrier(failing):
    def work(thread, arrivals):
        if thread == failing:
            raise ValueError(thread)
        _walk(thread, 2, arrivals, np.zeros((3, 2), np.int64))

    with pytest.raises(ValueError, match=str(failing)):
        with_barrier(2, work)


def test_an_interrupt_opens_the_barrier():
    """Ctrl-C may come before this thread has begun its own thread."""
    arrivals = np.zeros(1, np.int64)

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_parallel(
            interrupted,
            lambda: _walk(1, 2, arrivals, np.zeros((3, 2), np.int64)),
            on_error=lambda: arrivals.fill(1 << 62),
        )


@njit(nogil=True)
def _walk(thread, n_threads, arrivals, left):
    for number in range(len(left)):
        barrier(arrivals, n_threads)
        left[number, thread] = atomic_load(arrivals)


def test_barriers_of_several_callers_do_not_deadlock():
    def often():
        for _ in range(200):
            left = np.zeros((2, 3), np.int64)
            with_barrier(3, lambda thread, arrivals, left=left: _walk(thread, 3, arrivals, left))

    callers = [threading.Thread(target=often, daemon=True) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
        assert not caller.is_alive()


def test_a_forked_child_ranks_draws_and_fits():
    """GNU OpenMP ends a forked process that uses it after its parent did."""
    code = """
import os, signal
import numpy as np
import vitalrank as vr

log = vr.datasets.synthetic(users=400, items=300, interactions=9000, seed=0)
train, test = log.split_last(0.2)
queries, table = np.ones((len(train), 8), np.float32), np.ones((train.n_items, 8), np.float32)

def work():
    for model in (vr.MF(8), vr.ItemKNN()):
        model.fit(train, **({"epochs": 1} if isinstance(model, vr.MF) else {}))
        yield vr.evaluate(model, test, at=10)["ndcg@10"]
        yield model.recommend(train.user_ids, n=5)[0].tolist()
    for sampler in (vr.VINS(), vr.AOBPR(), vr.AOBPR(exact=True), vr.PRIS(), vr.samplers.IRGAN()):
        yield sampler.bind(train, seed=1)(queries, table, train.users, train.items, step=0).ids.tolist()

done = list(work())
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if list(work()) == done else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"], done.stderr
