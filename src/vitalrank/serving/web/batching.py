"""Requests that arrive together are ranked together: four users cost little more than one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Batcher(Generic[Request, Answer]):
    """Gathers requests for a moment and answers them by one call in a thread of its own.

    While a batch is ranked the next one gathers, so the window only matters where there is little to do.

    Parameters
    ----------
    answer
        Gives an answer for each request.
    window
        Seconds to wait for more requests once one is there.
    most
        Requests of a batch.
    """

    def __init__(
        self, answer: Callable[[Sequence[Request]], Sequence[Answer]], window: float = 0.001, most: int = 64
    ) -> None:
        self._answer, self._window, self._most = answer, window, most
        self._waiting: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vitalrank-rank")
        self.batches = 0
        self.requests = 0

    async def ask(self, request: Request) -> Answer:
        """The answer to a request."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Answer requests until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._arrived.wait()
                if len(self._waiting) < self._most:
                    await asyncio.sleep(self._window)
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                if not self._waiting:
                    self._arrived.clear()
                batch = [(request, future) for request, future in batch if not future.done()]  # callers that left
                if not batch:
                    continue
                self.batches += 1
                self.requests += len(batch)
                try:
                    answers = await loop.run_in_executor(self._thread, self._answer, [request for request, _ in batch])
                except Exception as error:  # of the whole batch: each caller is told
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                    continue
                for (_, future), answer in zip(batch, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
        finally:
            self._thread.shutdown(wait=False)
