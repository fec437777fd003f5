"""Names of devices: what they stand for, and one sentence for those that cannot be had."""

import subprocess
import sys

import pytest

from vitalrank._util import devices
from vitalrank.errors import SettingError, TrainingError


@pytest.fixture
def gpus(monkeypatch):
    """Pretend that there are so many GPUs, whatever Triton is here."""
    monkeypatch.setattr(devices, "_triton_version", lambda: devices._TRITON)
    return lambda count: monkeypatch.setattr(devices, "_gpus", lambda: count)


def test_auto_is_a_gpu_if_there_is_one(gpus):
    gpus(0)
    assert devices.resolve("auto") == "cpu"
    gpus(2)
    assert devices.resolve("auto") == "cuda:0"


def test_a_gpu_is_named_by_its_number(gpus):
    gpus(2)
    names = {"cpu": "cpu", "cuda": "cuda:0", "cuda:0": "cuda:0", "cuda:1": "cuda:1"}
    assert {name: devices.resolve(name) for name in names} == names


def test_a_gpu_that_is_not_there_is_refused(gpus):
    gpus(2)
    with pytest.raises(SettingError, match=r"^device 'cuda:2': there are 2 GPUs here, counted from 0\.$"):
        devices.resolve("cuda:2")
    gpus(0)
    with pytest.raises(SettingError, match=r"^device 'cuda': no GPU is visible here; use device='cpu' or 'auto'\.$"):
        devices.resolve("cuda")


def test_without_torch_a_gpu_is_refused_and_auto_is_the_cpu(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert devices.resolve("auto") == "cpu"
    with pytest.raises(SettingError, match="torch is not installed"):
        devices.resolve("cuda")


def test_with_an_old_triton_a_gpu_is_refused_and_auto_is_the_cpu(monkeypatch):
    triton = pytest.importorskip("triton")
    monkeypatch.setattr(triton, "__version__", "3.3.1")
    assert devices.resolve("auto") == "cpu"
    with pytest.raises(SettingError, match=r"^device 'cuda': the kernels need triton 3.4 or newer and this is 3.3;"):
        devices.resolve("cuda")


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "", "cpu:0"])
def test_unknown_names_are_refused(name):
    with pytest.raises(SettingError, match="choose one of cpu, cuda, cuda:N, auto"):
        devices.resolve(name)


def test_the_cpu_is_resolved_without_loading_torch():
    code = "import sys; from vitalrank._util.devices import resolve; resolve('cpu'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_does_not_fit_is_refused_with_the_size_needed(monkeypatch):
    torch = pytest.importorskip("torch")
    gib = 1 << 30
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 * gib, 8 * gib))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2 * gib)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: gib)
    with (
        pytest.raises(TrainingError, match=r"too small: 5.00 GiB are needed and 4.00 GiB are free; sell it\."),
        devices.enough_memory("cuda:0", 5 * gib, "sell it"),
    ):
        pytest.fail("not reached")
    with (
        pytest.raises(TrainingError, match=r"cuda:0 ran out of memory, 4.00 GiB were free; use less\."),
        devices.enough_memory("cuda:0", gib, "use less"),
    ):
        raise torch.cuda.OutOfMemoryError
