"""Processes with other settings of threads, or forked from one that has trained."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FORK = """
import os, signal, sys
import vitalrank as vr
from vitalrank.errors import TrainingError

log = vr.datasets.synthetic(users=60, items=40, interactions=900, seed=0)
model = getattr(vr, sys.argv[1])(8).fit(log, epochs=1, progress=False)
lists = model.recommend(log.user_ids, n=5)[0].tolist()
child = os.fork()
if child == 0:
    signal.alarm(100)
    assert model.recommend(log.user_ids, n=5)[0].tolist() == lists
    try:
        vr.FPMC(8).fit(log, epochs=1, progress=False)
    except TrainingError as error:
        print(error, flush=True)
        vr.MF(8).fit(log, epochs=1, progress=False)
        os._exit(0)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def run(code, *words, **settings):
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", **settings}
    return subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("model", ["FPMC", "MF"])
def test_a_child_forked_after_training_ranks_and_is_told_that_torch_cannot_train_there(model):
    """Numba would end the child, and torch would hang, where OpenMP's threads were started before."""
    pytest.importorskip("torch")
    done = run(FORK, model, NUMBA_NUM_THREADS="2", NUMBA_THREADING_LAYER="omp")
    *told, code = done.stdout.splitlines()
    assert (len(told), code) == (1, "0"), done.stderr
    assert "spawn" in told[0]


@pytest.mark.parametrize("threads", ["0", "-1"])
def test_a_number_of_threads_that_numba_refuses_is_named(threads):
    code = "import vitalrank as vr\ntry:\n    vr.MF(2)\nexcept vr.SettingError as error:\n    print(error)"
    done = run(code, NUMBA_NUM_THREADS=threads)
    assert done.stdout.startswith(f"NUMBA_NUM_THREADS is {threads!r}"), done.stderr
