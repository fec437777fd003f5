"""Set before Numba and Triton are imported: four threads, so that tests can ask for 1, 2 and 4 on any machine; kernels
of the GPU are interpreted, unless VITALRANK_TEST_GPU asks for a real one.
"""

import os
from contextlib import suppress

os.environ.setdefault("NUMBA_NUM_THREADS", "4")
if "VITALRANK_TEST_GPU" not in os.environ:
    os.environ["TRITON_INTERPRET"] = "1"

import pytest

from vitalrank.kernels.cpu.runtime import parallel

parallel.MIN_SHARD_COST = 1  # threads share even the small batches of tests
with suppress(ModuleNotFoundError):  # make test-gpu needs pytest alone
    from hypothesis import HealthCheck, settings

    # No test depends on the clock: a busy machine may generate inputs slowly.
    settings.register_profile("vitalrank", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("vitalrank")


@pytest.fixture(scope="module")
def one_torch_thread():
    """Small networks are slower on several threads."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
