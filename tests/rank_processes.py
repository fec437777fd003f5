"""Ranks started as torchrun starts them, without its agent: one process each, on the loopback interface."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def environment(rank, size, port, **more):
    """What torchrun sets for a rank."""
    own = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "test",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "2",
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "src")]),
        "VITALRANK_GROUP_SECONDS": "20",
    }
    return {**os.environ, **own, **more}


def start(size, *command, **more):
    """The processes of all ranks, running a Python command."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            env=environment(rank, size, port, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def finish(processes, seconds=400):
    """Exit code, output and errors of each rank."""
    try:
        return [(*process.communicate(timeout=seconds)[:2], process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()


def answers(size, *command, **more):
    """What each rank printed as its last line, as JSON."""
    found = finish(start(size, *command, **more))
    for out, err, code in found:
        assert code == 0, (out, err)
    return [json.loads(out.splitlines()[-1]) for out, _, _ in found]
