"""Curves for TensorBoard, epoch by epoch."""

from __future__ import annotations

import os
from typing import Any

from vitalrank.errors import SettingError
from vitalrank.history import Record
from vitalrank.training.trackers import EpochTracker, numbers


class TensorBoard(EpochTracker):
    """A callback that writes every number of an epoch's record as a curve; it needs torch and tensorboard.

    Parameters
    ----------
    folder
        Where to write; ``tensorboard --logdir`` reads it. One folder per run.

    Examples
    --------
    >>> import tempfile, vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> with TensorBoard(tempfile.mkdtemp()) as board:
    ...     model = vr.MF(dim=8).fit(log, epochs=2, seed=0, callbacks=[board])
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as missing:
            raise SettingError("TensorBoard needs torch and tensorboard: pip install torch tensorboard.") from missing
        self._writer: Any = SummaryWriter(os.fspath(folder))

    def __call__(self, record: Record, model: object) -> None:
        """Write the record of an epoch."""
        for name, value in numbers(record).items():
            self._writer.add_scalar(name, value, record["epoch"])
        self._writer.flush()

    def close(self) -> None:
        """Let go of the file."""
        self._writer.close()
