"""Set before Numba is imported: four threads, so that tests can ask for 1, 2 and 4 on any machine."""

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "4")

import pytest


@pytest.fixture(scope="module")
def one_torch_thread():
    """Small networks are slower on several threads."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
