"""Joining the group that torchrun, or our own launcher, has started this process for."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.errors import GroupError, SettingError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from vitalrank.distributed.group import Group

SINGLE = ProcessGroup()
RESTART_VARIABLE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # without it most of torchrun's restarts fail
_OWNER = "VITALRANK_GROUP_PROCESS"  # children of a rank inherit its environment and must not take its place
_JOIN_SECONDS = 300  # for the slowest machine to get here
_POLL_SECONDS = 0.02
_current: list[Group] = []


def is_started() -> bool:
    """Whether torchrun has started this process as one of several ranks."""
    several = os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1")
    owner = os.environ.get(_OWNER)
    return several and "TORCHELASTIC_RUN_ID" in os.environ and owner in (None, str(os.getpid()))


def is_restarted() -> bool:
    """Whether torchrun has started the ranks again after one of them was gone: a run goes on where it was."""
    return is_started() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def current_group() -> ProcessGroup:
    """The group that this process has joined, or a group of one."""
    return _current[0] if _current and not _current[0].is_broken else SINGLE


def join_group() -> ProcessGroup:
    """Join the group, once in the life of a process; a group of one where torchrun started none.

    Examples
    --------
    >>> join_group().size
    1
    """
    if _current:
        if _current[0].is_broken:
            raise GroupError("this process has left its group after an error; start it again.")
        return _current[0]
    if not is_started():
        return SINGLE
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a rank that ends is no news
    _take_card()
    group = _joined()
    os.environ[_OWNER] = str(os.getpid())
    _current.append(group)
    check_same_environment(group, numeric_environment())
    return group


def local_threads() -> int | None:
    """The share that this rank has of the cores of its machine; None for a process alone."""
    if not is_started():
        return None
    here = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, cores() // (int(here) if here.isdecimal() and int(here) else 1))


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _joined() -> Group:
    try:
        torch: Any = import_module("torch")
        dist: Any = import_module("torch.distributed")
    except ModuleNotFoundError as missing:
        raise SettingError("several ranks need torch: pip install 'vitalrank[torch]'.") from missing
    from vitalrank.distributed.group import Group
    from vitalrank.distributed.monitor import patience_of

    patience = patience_of()
    short = timedelta(seconds=patience)
    try:
        if dist.is_initialized():  # by the caller
            process_group = dist.new_group(backend="gloo", timeout=short)
            store = dist.PrefixStore("vitalrank", dist.distributed_c10d._get_default_store())
            return Group(store, dist.get_rank(), dist.get_world_size(), process_group, patience)
        store, rank, size = next(iter(dist.rendezvous("env://", timeout=timedelta(seconds=_JOIN_SECONDS))))
        # Hosts count their restarts apart, so two counts may differ; only a store that outlives a restart needs one.
        outlives = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if outlives else "0"
        prefix = dist.PrefixStore(f"vitalrank/{attempt}", store)
        has_cards = _await_others(store, size, attempt, torch.cuda.is_available())
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if has_cards else "gloo", store=prefix, rank=rank, world_size=size, timeout=short
        )
        return Group(dist.PrefixStore("group", prefix), rank, size, None, patience)
    except GroupError:
        raise
    except (RuntimeError, ValueError) as error:
        raise GroupError(
            f"the ranks do not find each other ({str(error).splitlines()[0]}); see that MASTER_ADDR is reachable and "
            "that GLOO_SOCKET_IFNAME names the interface between the machines."
        ) from error


def _take_card() -> None:
    """Let this rank see one GPU of its machine alone, that of its local rank."""
    local, cards = os.environ.get("LOCAL_RANK", "0"), os.environ.get("CUDA_VISIBLE_DEVICES")
    if cards is None:
        os.environ["CUDA_VISIBLE_DEVICES"] = local
    elif cards:
        names = cards.split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = names[int(local)] if int(local) < len(names) else ""


def _await_others(store: Store, size: int, attempt: str, has_card: bool) -> bool:
    """Wait until all ranks have started, so that the short timeout of a message is not spent on the slowest.

    Returns whether every rank has a GPU.
    """
    cards = f"vitalrank/{attempt}/cards"
    store.add(cards, int(has_card))
    key, end = f"vitalrank/{attempt}/started", time.monotonic() + _JOIN_SECONDS
    started = store.add(key, 1)
    while started < size:
        if time.monotonic() > end:
            raise GroupError(f"only {started} of {size} ranks started within {_JOIN_SECONDS} s; see that all can.")
        time.sleep(_POLL_SECONDS)
        started = store.add(key, 0)
    return bool(store.add(cards, 0) == size)


def numeric_environment() -> dict[str, Any]:
    """Processor and library versions, which must be the same on all machines for the same bits."""
    import llvmlite.binding as llvm

    cpu = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or llvm.get_host_cpu_features().flatten()
    names = ("vitalrank", "numpy", "numba", "torch")
    versions = {name: metadata.version(name) for name in names}
    return {"processor": cpu, "features": str(features), **versions}


def check_same_environment(group: ProcessGroup, own: Mapping[str, Any]) -> None:
    """Reject a group whose machines compile or compute differently."""
    found = group.all_gather_objects(dict(own))
    for name in own:
        values = [of_rank.get(name) for of_rank in found]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is None:
            continue
        if name in ("processor", "features"):
            raise SettingError(
                f"the ranks run on different processors ({values[0] if name == 'processor' else 'features'} on rank 0, "
                f"{values[other] if name == 'processor' else 'others'} on rank {other}), which round differently; set "
                "NUMBA_CPU_NAME=generic and NUMBA_CPU_FEATURES=+sse2 for all ranks, or use machines of one kind."
            )
        warnings.warn(f"{name} is {values[0]} on rank 0 and {values[other]} on rank {other}.", stacklevel=4)
