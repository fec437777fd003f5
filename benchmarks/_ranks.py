"""Ranks started as torchrun starts them, without its agent, on this machine or in two network namespaces."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from _common import HERE

SPACES, INTERFACES = ("vitalrank-a", "vitalrank-b"), ("veth-a", "veth-b")
LONGEST = 1800  # seconds that processes may take


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def rank_environment(
    rank: int, ranks: int, port: int, address: str = "127.0.0.1", interface: str = "lo", here: int | None = None
) -> dict[str, str]:
    """What torchrun sets for a rank; ``here`` are the ranks on its machine, by default all."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank if here is None else rank % here),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(here or ranks),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "benchmark",
        "GLOO_SOCKET_IFNAME": interface,
        "OMP_NUM_THREADS": "1",
    }


def run(commands: Sequence[Sequence[str]], environments: Sequence[dict[str, str]]) -> list[str]:
    """What processes that run at once print last."""
    started = [
        subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True)
        for command, own in zip(commands, environments, strict=True)
    ]
    try:
        found = [process.communicate(timeout=LONGEST)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    if any(process.returncode for process in started):
        raise SystemExit(f"exit codes {[process.returncode for process in started]}")
    return [out.splitlines()[-1] for out in found]


def answers(script: str, words: Sequence[object], ranks: int, spaces: bool = False, **more: str) -> list[Any]:
    """What each rank of a script prints last, as JSON: on loopback, or each of two in its own network namespace."""
    command = [sys.executable, str(HERE / script), *map(str, words)]
    if ranks == 1:
        return [json.loads(run([command], [more])[0])]
    address, port = ("10.77.0.1" if spaces else "127.0.0.1"), free_port()
    places = [["ip", "netns", "exec", space] for space in SPACES] if spaces else [[]] * ranks
    own = [
        rank_environment(r, ranks, port, address, INTERFACES[r] if spaces else "lo", here=1 if spaces else None)
        for r in range(ranks)
    ]
    patience = {"VITALRANK_GROUP_SECONDS": "120"}  # the host may be busy
    return [
        json.loads(line) for line in run([place + command for place in places], [patience | one | more for one in own])
    ]


@contextmanager
def namespaces(rate: str, burst: str) -> Iterator[None]:
    """Two network namespaces with a link of that rate between them; made by root."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    for space in SPACES:
        subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
    try:
        for space in SPACES:
            ip("netns", "add", space)
        ends = [("name", name, "netns", space) for space, name in zip(SPACES, INTERFACES, strict=True)]
        ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for number, (space, name) in enumerate(zip(SPACES, INTERFACES, strict=True), 1):
            ip("-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", name)
            ip("-n", space, "link", "set", name, "up")
            ip("-n", space, "link", "set", "lo", "up")
            shape = ["tc", "-n", space, "qdisc", "add", "dev", name, "root", "tbf", "rate", rate, "burst", burst]
            subprocess.run([*shape, "latency", "100ms"], check=True)
        yield
    finally:
        for space in SPACES:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


def bytes_out() -> int:
    """Bytes that have left both namespaces, headers included."""
    total = 0
    for space, name in zip(SPACES, INTERFACES, strict=True):
        shown = subprocess.run(["ip", "-n", space, "-s", "-j", "link", "show", name], capture_output=True, check=True)
        total += int(json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"])
    return total
