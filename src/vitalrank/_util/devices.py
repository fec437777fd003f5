"""Devices: names to devices, streams, memory, and one-sentence errors when memory runs out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from vitalrank.errors import SettingError, TrainingError

_GIB = 1 << 30
_CPU_ALLOCATOR = "DefaultCPUAllocator"  # in the message of torch's RuntimeError where the host's memory is short
_TRITON = (3, 4)  # the oldest with which every kernel was seen to compile; 3.0 does not accept a proposal as a tuple
_SWITCH_INTERVAL = 1e-4  # seconds; Python's default is fifty times that


def resolve(device: str) -> str:
    """The device that a name stands for: ``"cpu"``, ``"cuda:0"``, ``"cuda:1"``, ...

    Parameters
    ----------
    device
        ``"cpu"``, ``"cuda"`` (the first GPU), ``"cuda:N"``, or ``"auto"``: the first GPU if there is one, else the
        CPU.

    Examples
    --------
    >>> resolve("cpu")
    'cpu'
    >>> resolve("tpu")
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: unknown device 'tpu'; choose one of cpu, cuda, cuda:N, auto.
    """
    if device == "cpu":
        return "cpu"  # without a look at torch, which takes seconds to load
    if device == "auto":
        return "cuda:0" if _gpus() else "cpu"
    name, colon, number = str(device).partition(":")
    if name != "cuda" or (colon and not number.isdecimal()):
        raise SettingError(f"unknown device {device!r}; choose one of cpu, cuda, cuda:N, auto.")
    index = int(number or 0)
    if index >= _gpus():
        raise SettingError(f"device {device!r}: {_why_missing()}.")
    return f"cuda:{index}"


@contextmanager
def dedicated_stream(device: str) -> Iterator[None]:
    """Run the block on a CUDA stream of its own, so that small runs of several threads overlap on one GPU.

    Examples
    --------
    >>> with dedicated_stream("cpu"):
    ...     pass
    """
    if device == "cpu":
        yield
        return
    import torch

    stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        try:
            yield
        finally:
            stream.synchronize()


@contextmanager
def fast_thread_switching() -> Iterator[None]:
    """Shorten the thread switch interval: a thread that trains on a GPU waits for the device, then for the GIL.

    Examples
    --------
    >>> with fast_thread_switching():
    ...     pass
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def give_back(device: str) -> None:
    """Release the GPU memory that torch caches and does not use; on ``"cpu"`` nothing.

    A captured CUDA graph leaves cached memory that torch reuses only when the GPU is full.

    Examples
    --------
    >>> give_back("cpu")
    """
    if device != "cpu":
        import torch

        torch.cuda.empty_cache()


@contextmanager
def enough_memory(device: str, needed: int, advice: str) -> Iterator[None]:
    """Raise one TrainingError where memory runs out, the device's or the host's.

    Parameters
    ----------
    device
        A resolved name.
    needed
        A lower bound on the bytes that the block takes; checked beforehand on a GPU.
    advice
        What to do, as the end of a sentence: ``"use a smaller dim"``.

    Examples
    --------
    >>> with enough_memory("cpu", needed=1 << 60, advice="use a smaller dim"):
    ...     raise MemoryError
    Traceback (most recent call last):
    ...
    vitalrank.errors.TrainingError: cpu ran out of memory; use a smaller dim.
    """
    if device == "cpu":
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and _CPU_ALLOCATOR not in str(error):
                raise
            raise TrainingError(f"cpu ran out of memory; {advice}.") from error
        return
    import torch

    free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    had = f"{free / _GIB:.2f} GiB"
    if needed > free:
        raise TrainingError(f"{device} is too small: {needed / _GIB:.2f} GiB are needed and {had} are free; {advice}.")
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise TrainingError(f"{device} ran out of memory, {had} were free; {advice}.") from error


def _gpus() -> int:
    """GPUs that torch and Triton can use."""
    if find_spec("torch") is None or find_spec("triton") is None or _triton_version() < _TRITON:
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _triton_version() -> tuple[int, ...]:
    import triton

    return tuple(int(part) for part in triton.__version__.split(".")[:2])


def _why_missing() -> str:
    if find_spec("torch") is None:
        return "torch is not installed; use device='cpu', or install vitalrank[torch]"
    if find_spec("triton") is None:
        return "triton, which compiles the kernels, is not installed; use device='cpu', or install triton"
    if _triton_version() < _TRITON:
        found, least = (".".join(map(str, version)) for version in (_triton_version(), _TRITON))
        return f"the kernels need triton {least} or newer and this is {found}; use device='cpu', or a newer torch"
    if not _gpus():
        return "no GPU is visible here; use device='cpu' or 'auto'"
    return f"there are {_gpus()} GPUs here, counted from 0"
