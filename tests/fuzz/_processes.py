"""Processes that are forked from this one: what they run, and how they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable


def start(work: Callable[[], int]) -> int:
    """The id of a process that ends with the exit code that ``work`` returns, 70 where it raises."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        code = work()
    finally:
        os._exit(code)


def exit_code(process: int, longest: float) -> int:
    """The exit code of a process, negative for a signal; one that takes longer than so many seconds hangs."""
    end = time.monotonic() + longest
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError(f"a process did not end within {longest:.0f} seconds")
