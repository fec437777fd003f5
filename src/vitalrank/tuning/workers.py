"""Which workers of a study are alive: shown by a lock that the system releases with the process, or by a heartbeat."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Study

HEARTBEAT_SECONDS = 15.0
GRACE_SECONDS = 90.0  # without a heartbeat, after which a worker counts as dead

_fcntl: Any = import_module("fcntl") if os.name == "posix" else None


class StudyWorker(ABC):
    """The identity of this process in a study: a random token, so that no other process ever has the same name.

    A process id and a host name would come back, as in a container that is started again.
    """

    def __init__(self, kind: str) -> None:
        self.name = f"{kind}:{secrets.token_hex(8)}"

    @abstractmethod
    def is_alive(self, name: str) -> bool:
        """Whether the worker of that name, maybe of another process, still runs."""

    @abstractmethod
    def close(self) -> None:
        """Sign off."""


class OnlyWorker(StudyWorker):
    """The worker of a study in memory, which no other process sees."""

    def __init__(self) -> None:
        super().__init__("only")

    def is_alive(self, name: str) -> bool:
        return name == self.name

    def close(self) -> None:
        pass


class HeartbeatWorker(StudyWorker):
    """A worker that writes the time into the study: for databases, and where files cannot be locked."""

    def __init__(self, study: Study) -> None:
        super().__init__("heartbeat")
        self._study = study
        self._stopped = threading.Event()
        self._beat()
        threading.Thread(target=self._run, name="vitalrank-heartbeat", daemon=True).start()

    def is_alive(self, name: str) -> bool:
        return _has_heartbeat(self._study, name)

    def close(self) -> None:
        self._stopped.set()
        with contextlib.suppress(Exception):  # a storage that fails has been reported
            self._study.set_user_attr(self.name, 0.0)

    def _beat(self) -> None:
        self._study.set_user_attr(self.name, time.time())

    def _run(self) -> None:
        while not self._stopped.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(Exception):  # the trial itself reports a storage that fails
                self._beat()


class LockWorker(StudyWorker):
    """A worker that holds a lock on a file beside the study; the lock ends with the process, however it ends."""

    def __init__(self, folder: Path, study: Study) -> None:
        super().__init__("lock")
        self._folder = folder
        self._study = study
        self._handle = self._locked()

    def is_alive(self, name: str) -> bool:
        kind, _, token = name.partition(":")
        if kind != "lock":
            return _has_heartbeat(self._study, name)
        return name == self.name or _is_locked(self._folder / token)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._handle)
        with contextlib.suppress(OSError):  # others work here
            for path in self._folder.iterdir():
                _is_locked(path)  # removes what killed processes left
            self._folder.rmdir()

    @property
    def _path(self) -> Path:
        return self._folder / self.name.partition(":")[2]

    def _locked(self) -> int:
        while True:
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:  # the last of the other workers removed the folder just now
                continue
            try:
                # Not lockf, whose locks end when the process closes any handle of the file.
                _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
                if os.fstat(handle).st_nlink:  # else it was cleaned up before it was locked
                    return handle
            except BlockingIOError:  # being cleaned up
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)


def _is_locked(path: Path) -> bool:
    """Whether a process holds the lock; the file of one that is gone is removed."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


def _has_heartbeat(study: Study, name: str) -> bool:
    last = study.user_attrs.get(name)
    return isinstance(last, (int, float)) and time.time() - last < GRACE_SECONDS


def join(study: Study, file: Path | None, shared: bool) -> StudyWorker:
    """Sign on as a worker of a study.

    Parameters
    ----------
    study
        The study.
    file
        The file that it is stored in; None for a database or memory.
    shared
        Whether other processes can see it.
    """
    if not shared:
        return OnlyWorker()
    if file is not None and _fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            return LockWorker(file.with_name(f".{file.name}.workers"), study)
    return HeartbeatWorker(study)
