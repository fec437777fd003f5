"""What ``vitalrank doctor`` says of the group of ranks, or of what one would find on this machine."""

from __future__ import annotations

import os
import socket
from collections import Counter
from importlib import import_module
from typing import Any

from vitalrank.distributed.joining import RESTART_VARIABLE, current_group, is_started, numeric_environment


def describe_ranks() -> str:
    """The ranks and their machines, the interface between them, the processor, whether torchrun can restart them.

    Examples
    --------
    >>> "processor" in describe_ranks()
    True
    """
    try:
        torch: Any = import_module("torch.distributed")
    except ModuleNotFoundError:
        return "no torch (pip install 'vitalrank[torch]')"
    if not torch.is_available() or not torch.is_gloo_available():
        return "this build of torch has no gloo; install torch from its own index"
    parts = [_members(), _interface(), f"processor {numeric_environment()['processor']}", _restarts()]
    return "; ".join(parts)


def _members() -> str:
    group: Any = current_group()
    if not group:
        return "no group (try vitalrank doctor --ranks 2, or torchrun ... -m vitalrank doctor)"
    counts = Counter(group.hosts)
    return f"{group.size} ranks on " + ", ".join(f"{host} ({count})" for host, count in counts.items())


def _interface() -> str:
    """The interface that gloo takes: the one that is named, or that of the address of the machine's name."""
    named = os.environ.get("GLOO_SOCKET_IFNAME")
    if named:
        known = [name for _, name in socket.if_nameindex()]
        here = set(named.split(",")) <= set(known)
        return f"interface {named}" + ("" if here else f", which this machine lacks: it has {', '.join(known)}")
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return f"{name} has no address: set GLOO_SOCKET_IFNAME to an interface"
    if address.startswith("127."):
        return f"{name} is {address}, for this machine alone: set GLOO_SOCKET_IFNAME for several machines"
    return f"{name} is {address}"


def _restarts() -> str:
    value = os.environ.get(RESTART_VARIABLE)
    if value == "1":
        return f"{RESTART_VARIABLE}=1"
    place = "where torchrun is started" if not is_started() else "where torchrun was started, with --max-restarts"
    return f"{RESTART_VARIABLE} is not set: set it to 1 {place}, or killed ranks do not come back"
