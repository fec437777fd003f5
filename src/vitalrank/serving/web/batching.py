"""Requests that arrive together are ranked together: four users cost little more than one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")


class Batcher(Generic[RequestT, AnswerT]):
    """Gathers requests for a moment and answers them by one call in a thread of its own.

    While a batch is ranked the next one gathers, and the thread takes it without a turn of the event loop between
    them; the window only matters where there was nothing to do.

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
        self, answer: Callable[[Sequence[RequestT]], Sequence[AnswerT]], window: float = 0.001, most: int = 64
    ) -> None:
        self._answer, self._window, self._most = answer, window, most
        self._waiting: SimpleQueue[tuple[RequestT, asyncio.Future[AnswerT]] | None] = SimpleQueue()
        self.batches = 0
        self.requests = 0

    async def submit(self, request: RequestT) -> AnswerT:
        """The answer to a request."""
        future: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._waiting.put((request, future))
        return await future

    async def run(self) -> None:
        """Answer requests until cancelled."""
        loop = asyncio.get_running_loop()
        Thread(target=self._serve, args=(loop,), name="vitalrank-rank", daemon=True).start()
        try:
            await loop.create_future()  # for ever
        finally:
            self._waiting.put(None)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take batches from the queue until there is a None in it."""
        while True:
            batch = self._gathered()
            if not batch:
                batch = [self._waiting.get()]
                time.sleep(self._window)
                batch += self._gathered(self._most - 1)
            waiting = [one for one in batch if one is not None and not one[1].done()]  # without callers that left
            if waiting:
                self._answer_batch(loop, waiting)
            if None in batch:
                return

    def _gathered(self, most: int | None = None) -> list[tuple[RequestT, asyncio.Future[AnswerT]] | None]:
        """What is in the queue now."""
        found: list[tuple[RequestT, asyncio.Future[AnswerT]] | None] = []
        with suppress(Empty):
            while len(found) < (self._most if most is None else most):
                found.append(self._waiting.get_nowait())
        return found

    def _answer_batch(
        self, loop: asyncio.AbstractEventLoop, batch: Sequence[tuple[RequestT, asyncio.Future[AnswerT]]]
    ) -> None:
        self.batches += 1
        self.requests += len(batch)
        futures = [future for _, future in batch]
        answers: Sequence[AnswerT] | Exception
        try:
            answers = self._answer([request for request, _ in batch])
        except Exception as error:  # of the whole batch: each caller is told
            answers = error
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(_deliver, futures, answers)


def _deliver(futures: Sequence[asyncio.Future[AnswerT]], answers: Sequence[AnswerT] | Exception) -> None:
    """Give each caller their answer."""
    for place, future in enumerate(futures):
        if future.done():
            continue
        if isinstance(answers, Exception):
            future.set_exception(answers)
        else:
            future.set_result(answers[place])
