"""Work on a GPU captured once and replayed, so that no Python runs while it repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def new_stream(device: torch.device | str) -> Any:
    """A stream of the device."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def capture(device: torch.device | str, work: Callable[[Any], object]) -> torch.cuda.CUDAGraph:
    """What ``work`` sends to the device, as a graph; it is called once, with the stream that its work belongs on.

    Nothing runs yet: the first replay is the first time. Other threads may use the device meanwhile.
    """
    graph = torch.cuda.CUDAGraph()
    current = torch.cuda.current_stream(device)
    side = new_stream(device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            work(side)
        finally:
            graph.capture_end()
    current.wait_stream(side)
    return graph
