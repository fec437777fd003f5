"""The progress bar of training: what matters while it runs, and silence in a pipe."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from vitalrank.engines.base import Totals
from vitalrank.history import Record

_PAUSE = 0.2  # seconds between two looks at the screen


class Bar:
    """A bar over the positives of all epochs.

    Examples
    --------
    >>> with Bar(epochs=1, positives=10, show=False) as bar:
    ...     bar.epoch_begins(1)
    ...     bar.on_progress(Totals(positives=5, loss=3.0))
    """

    def __init__(self, epochs: int, positives: int, show: bool | None = None) -> None:
        self._epochs = epochs
        self._positives = positives
        self._epoch = 1
        self._began = self._seen = time.perf_counter()
        self._metric = ""
        self._last: Record | None = None
        self._progress = _new_progress() if (_has_screen() if show is None else show) else None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task("", total=self._epochs * self._positives, facts="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            if self._last is not None:  # an epoch that ended since the last look
                self._show(self._last, self._positives, self._last["seconds"])
            self._progress.stop()

    def epoch_begins(self, epoch: int) -> None:
        """Call before each epoch; epochs count from 1."""
        self._epoch = epoch
        self._began = time.perf_counter()

    def epoch_ends(self, record: Record, metric: str) -> None:
        """Call after each epoch with its record and the name of the metric on the validation log."""
        value = record.get(metric)
        self._metric = "" if value is None else f" {metric} {value:.4f}"
        self._last = record

    def on_progress(self, totals: Totals) -> None:
        """Call as often as you like with the running sums of the epoch."""
        if self._progress is None:
            return
        now = time.perf_counter()
        if now - self._seen < _PAUSE:
            return
        self._seen = now
        self._show(totals.means(), totals.positives, now - self._began)

    def _show(self, means: Record, positives: int, seconds: float) -> None:
        if self._progress is None:
            return
        facts = (
            f"epoch {self._epoch}/{self._epochs} loss {means['loss']:.4f} tries {means['tries']:.1f} "
            f"vanished {means['vanished']:.0%} {_short(positives / max(seconds, 1e-9))}/s{self._metric}"
        )
        done = (self._epoch - 1) * self._positives + positives
        self._progress.update(self._task, completed=done, facts=facts)
        self._progress.refresh()


def _has_screen() -> bool:
    # In a notebook rich draws by ipywidgets, and without them prints a warning into the cell instead of a bar.
    notebook = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None
    return sys.stderr.isatty() or notebook


def _short(number: float) -> str:
    return f"{number / 1e6:.2f}M" if number >= 1e6 else f"{number / 1e3:.0f}k"


def _new_progress() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    # Refreshed by hand: a thread of its own would take turns with the training.
    return Progress(
        TextColumn("{task.fields[facts]}"),
        BarColumn(bar_width=20),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
    )
