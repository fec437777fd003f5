"""Liveness of the ranks: each counts a heartbeat in the group's store, and reports its failure there."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

Value = TypeVar("Value")
BEAT_SECONDS = 0.5
_FAILURE, _READ = "failure", "read"
_POLLS = (0.001, 0.1)  # seconds between two looks at the store, from the first to the slowest


@dataclass(frozen=True)
class Failure:
    """The error of a rank that stops."""

    rank: int
    message: str


class StoreGoneError(Exception):
    """The store does not answer, so the rank that hosts it is gone."""


class Monitor:
    """Heartbeats, barriers and the first failure, over a store with ``set``, ``get``, ``add`` and ``check``."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._barriers = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="vitalrank-heartbeat", daemon=True)
        self._thread.start()
        # A daemon thread ended by the interpreter within a call of the store aborts the process: a failure to torchrun.
        atexit.register(self.close)

    def close(self) -> None:
        """Stop the heartbeat."""
        self._stopped.set()
        self._thread.join(2 * BEAT_SECONDS)
        atexit.unregister(self.close)

    def _beat(self) -> None:
        while not self._stopped.is_set():
            with suppress(RuntimeError):  # the rank that hosts the store has ended
                self._store.add(f"beat/{self._rank}", 1)
            self._stopped.wait(BEAT_SECONDS)

    def _ask_store(self, question: Callable[[], Value]) -> Value:
        try:
            return question()
        except RuntimeError as error:
            raise StoreGoneError(str(error)) from error

    def report_failure(self, message: str) -> None:
        """Report a failure, unless another rank has, and wait up to 3 s until the others have read it."""
        text = json.dumps({"rank": self._rank, "message": message})
        with suppress(StoreGoneError):
            if self._ask_store(lambda: self._store.add(f"{_FAILURE}/count", 1)) == 1:
                self._ask_store(lambda: self._store.set(_FAILURE, text))
                self._until(lambda: self._store.add(_READ, 0) >= self._size - 1, seconds=3.0)

    def failure(self) -> Failure | None:
        """The failure that was reported first, if there is one."""
        if not self._ask_store(lambda: self._store.check([_FAILURE])):
            return None
        said = json.loads(self._ask_store(lambda: self._store.get(_FAILURE)))
        return Failure(int(said["rank"]), str(said["message"]))

    def wait_for_failure(self, seconds: float) -> Failure | None:
        """Wait for the report of a failure, and acknowledge it."""
        found: list[Failure | None] = [None]

        def look() -> bool:
            found[0] = self.failure()
            return found[0] is not None

        self._until(look, seconds)
        if found[0] is not None:
            self._ask_store(lambda: self._store.add(_READ, 1))
        return found[0]

    def unresponsive(self, seconds: float) -> list[int]:
        """The ranks without a heartbeat within so many seconds."""
        others = [rank for rank in range(self._size) if rank != self._rank]
        before = {rank: self._beats(rank) for rank in others}
        left = set(others)

        def look() -> bool:
            for rank in list(left):
                if self._beats(rank) != before[rank]:
                    left.discard(rank)
            return not left

        self._until(look, seconds)
        return sorted(left)

    def _beats(self, rank: int) -> int:
        return int(self._ask_store(lambda: self._store.add(f"beat/{rank}", 0)))

    def barrier(self, patience: float) -> Collection[int]:
        """Wait until all ranks have arrived; returns those that are gone, if any."""
        self._barriers += 1
        key = f"barrier/{self._barriers}"
        self._ask_store(lambda: self._store.add(key, 1))
        last: dict[int, tuple[int, float]] = {}
        while True:
            if self._until(lambda: self._store.add(key, 0) >= self._size, seconds=1.0):
                return ()
            if self.failure() is not None:
                return (-1,)
            now = time.monotonic()
            for rank in range(self._size):
                beats = self._beats(rank)
                if rank not in last or last[rank][0] != beats:
                    last[rank] = beats, now
            gone = [rank for rank, (_, seen) in last.items() if now - seen > patience]
            if gone:
                return gone

    def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        end, pause = time.monotonic() + seconds, _POLLS[0]
        while not self._ask_store(is_so):
            if time.monotonic() > end:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, _POLLS[1])
        return True


def patience_of() -> float:
    """Seconds without a sign of life after which a rank counts as gone: VITALRANK_GROUP_SECONDS, 30 by default."""
    try:
        return max(float(os.environ.get("VITALRANK_GROUP_SECONDS", "30")), 1.0)
    except ValueError:
        return 30.0
