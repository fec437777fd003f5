"""What can go wrong, in words written for the person who reads them.

Every message says what was wrong, where, and what to do. The command line prints it in one line and exits 2.
"""

from __future__ import annotations

from collections.abc import Sequence


class VitalrankError(Exception):
    """Any mistake that the caller can mend; a traceback of another kind is a bug of the library."""


class DataError(VitalrankError, ValueError):
    """A log, a file or a frame that cannot be used as it is."""


class SettingError(VitalrankError, ValueError):
    """A setting or an argument outside what it may be."""


class UnknownIdError(VitalrankError, KeyError):
    """A user or an item that the log does not hold."""

    def __str__(self) -> str:
        # KeyError would quote the message.
        return str(self.args[0])


class StorageError(VitalrankError, OSError):
    """A folder or a file that cannot be read or written as asked."""


class TrainingError(VitalrankError, RuntimeError):
    """Training that had to stop, such as a loss that is no longer finite."""


class GroupError(VitalrankError, RuntimeError):
    """Another rank of the group failed, or is gone.

    Attributes
    ----------
    gone
        The ranks that ended without an error message, so that the run is worth a restart.
    """

    def __init__(self, message: str, gone: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.gone = tuple(gone)
