"""The progress bar of training, shown on a terminal or in a notebook and not in a pipe."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from vitalrank.engines.base import Totals
from vitalrank.history import Record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_REFRESH_SECONDS = 0.2
_BAR, _NARROW_BAR, _WIDE = 20, 10, 100  # columns of the bar, on a narrow screen, and from where a screen is wide
_ETA = 8  # columns of the time that remains, with a space
_LEAST_IMPORTANT = ("vanished", "rate", "tries")  # left out in this order where the screen is narrow


class ProgressBar:
    """A bar over the positives of all epochs.

    Examples
    --------
    >>> with ProgressBar(epochs=1, positives=10, show=False) as bar:
    ...     bar.epoch_started(1)
    ...     bar.on_progress(Totals(positives=5, loss=3.0))
    """

    def __init__(self, epochs: int, positives: int, show: bool | None = None, console: Console | None = None) -> None:
        self._epochs = epochs
        self._positives = positives
        self._epoch = 1
        self._began = self._refreshed = time.perf_counter()
        self._metric = ""
        self._last: Record | None = None
        self._progress = _new_progress(console) if (_is_interactive() if show is None else show) else None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task("", total=self._epochs * self._positives, status="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            if self._last is not None:  # an epoch that ended since the last refresh
                self._show(self._last, self._positives, self._last["seconds"])
            self._progress.stop()

    def epoch_started(self, epoch: int) -> None:
        """Call before each epoch; epochs count from 1."""
        self._epoch = epoch
        self._began = time.perf_counter()

    def epoch_finished(self, record: Record, metric: str) -> None:
        """Call after each epoch with its record and the name of the metric on the validation log."""
        value = record.get(metric)
        self._metric = "" if value is None else f"{metric} {value:.4f}"
        self._last = record

    def on_progress(self, totals: Totals) -> None:
        """Call at any rate with the running sums of the epoch."""
        if self._progress is None:
            return
        now = time.perf_counter()
        if now - self._refreshed < _REFRESH_SECONDS:
            return
        self._refreshed = now
        self._show(totals.means(), totals.positives, now - self._began)

    def _show(self, means: Record, positives: int, seconds: float) -> None:
        if self._progress is None:
            return
        status = {
            "epoch": f"epoch {self._epoch}/{self._epochs}",
            "loss": f"loss {means['loss']:.4f}",
            "tries": f"tries {means['tries']:.1f}",
            "vanished": f"vanished {means['vanished']:.0%}",
            "rate": f"{_short(positives / max(seconds, 1e-9))}/s",
            "metric": self._metric,
        }
        done = (self._epoch - 1) * self._positives + positives
        self._progress.update(self._task, completed=done, status=_fitted(status, self._progress.console.width))
        self._progress.refresh()


def _is_interactive() -> bool:
    # In a notebook rich draws by ipywidgets, and without them prints a warning into the cell instead of a bar.
    notebook = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None
    return sys.stderr.isatty() or notebook


def _short(number: float) -> str:
    return f"{number / 1e6:.2f}M" if number >= 1e6 else f"{number / 1e3:.0f}k"


def _bar_width(width: int) -> int:
    return _BAR if width >= _WIDE else _NARROW_BAR


def _fitted(facts: dict[str, str], width: int) -> str:
    """The facts in one line that leaves space for the bar and the time that remains.

    Examples
    --------
    >>> _fitted({"epoch": "epoch 1/5", "vanished": "vanished 4%"}, 80), _fitted({"epoch": "1/5", "rate": "9M/s"}, 25)
    ('epoch 1/5 vanished 4%', '1/5')
    """
    kept = dict(facts)
    for name in _LEAST_IMPORTANT:
        if len(" ".join(filter(None, kept.values()))) + 1 + _bar_width(width) + _ETA <= width:
            break
        kept.pop(name, None)
    return " ".join(filter(None, kept.values()))


def _new_progress(console: Console | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = console or Console(stderr=True)
    # Refreshed explicitly: a refresh thread would compete with the training for the interpreter lock.
    return Progress(
        TextColumn("{task.fields[status]}"),
        BarColumn(bar_width=_bar_width(console.width)),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,
    )
