"""Ranks started as torchrun starts them, without its agent."""

from __future__ import annotations

import socket


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
