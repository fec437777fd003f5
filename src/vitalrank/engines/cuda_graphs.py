"""Work on a GPU captured once and replayed, so that no Python runs while it repeats."""

from __future__ import annotations

from collections.abc import Callable

import torch


def new_stream(device: torch.device | str) -> torch.cuda.Stream:
    """A stream of the device."""
    made: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return made


def capture(device: torch.device | str, work: Callable[[torch.cuda.Stream], object]) -> torch.cuda.CUDAGraph:
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
