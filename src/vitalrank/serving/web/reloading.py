"""The current model, and its replacement when the run folder changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

from vitalrank._util.display import first_line
from vitalrank.serving.web.metrics import Metrics
from vitalrank.serving.web.snapshot import Snapshot

logger = logging.getLogger(__name__)


class Reloader:
    """Holds a snapshot; loads the next one beside it and then swaps the reference.

    A request keeps the snapshot that it began with, so none is dropped. A folder that cannot be loaded, such as one
    that is half copied, leaves the model as it is and is tried again when it changes.

    Parameters
    ----------
    load
        Makes a snapshot of the folder.
    identity
        What changes when the folder is replaced.
    """

    def __init__(self, load: Callable[[], Snapshot], identity: Callable[[], Hashable], metrics: Metrics) -> None:
        self._load, self._identity = load, identity
        self.metrics = metrics
        self._seen = identity()
        self.current = load()

    async def watch(self, seconds: float) -> None:
        """Look every so many seconds until cancelled."""
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="vitalrank-load")
        try:
            while True:
                await asyncio.sleep(seconds)
                await loop.run_in_executor(thread, self.look)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    def look(self) -> bool:
        """Load the folder if it was replaced; whether it was."""
        found = self._identity()
        if found == self._seen:
            return False
        self._seen = found
        try:
            self.current = self._load()
        except Exception as error:  # whatever it is, the server goes on with the model it has
            self.metrics.failed_reloads += 1
            logger.warning("the replaced run was not loaded, the model before stays: %s", first_line(error))
            return False
        self.metrics.reloads += 1
        logger.info("loaded the replaced run")
        return True
