"""The progress bar: one line with the time that remains, however narrow the screen."""

import io

import pytest
from rich.console import Console

from vitalrank.engines.base import Totals
from vitalrank.training.progress import ProgressBar


def last_line(width):
    """What stands on a screen of that width at the end of an epoch."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    with ProgressBar(epochs=200, positives=1_000_000, show=True, console=console) as bar:
        bar.epoch_started(12)
        means = Totals(positives=1_000_000, loss=123_400.0, tries=12_300_000, vanished=450_000).means()
        bar.epoch_finished({**means, "seconds": 0.81, "ndcg@10": 0.1234}, "ndcg@10")
    drawn = [line for line in console.file.getvalue().replace("\r", "\n").split("\n") if "epoch" in line]
    return drawn[-1].replace("\x1b[2K", "").rstrip()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_time_that_remains_is_on_the_line(width):
    line = last_line(width)
    assert "-:--:--" in line or ":" in line[-6:]
    assert len(line) <= width
    assert "epoch 12/200" in line
    assert "ndcg@10 0.1234" in line


def test_a_wide_screen_has_all_figures():
    assert all(word in last_line(200) for word in ("loss", "tries", "vanished", "/s"))
