"""Starting ranks on this machine through torch's elastic launcher, and starting them again when one was killed."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from vitalrank.distributed.joining import RESTART_VARIABLE, cores
from vitalrank.errors import GroupError, SettingError

TRY_AGAIN = 75  # exit code of a rank that lost another one: EX_TEMPFAIL of sysexits.h
MOST_RESTARTS = 10
_FAILED, _TERMINATED = 1, 128 + signal.SIGTERM

logger = logging.getLogger(__name__)


def start_ranks(words: Sequence[str], ranks: int, resuming: Sequence[str] = ()) -> int:
    """Run ``vitalrank`` with these words on so many ranks of this machine; returns the exit code.

    A rank that was killed takes the others along; then all are started again, with the words ``resuming`` added.
    An error that would come again ends the run: the ranks have told of it.

    Parameters
    ----------
    words
        The command line, without the program.
    ranks
        How many processes.
    resuming
        What to add when they are started again.
    """
    launching = _launching()
    _prepare_environment(ranks)
    for attempt in range(1 + MOST_RESTARTS):
        again = [word for word in resuming if attempt and word not in words]
        try:
            _launch(launching, [*words, *again], ranks)
        except launching.errors.ChildFailedError as failed:
            # The first of them made the launcher end the others.
            rank, failure = next(iter(failed.failures.items()))
            code = int(failure.exitcode)
            if not is_worth_a_restart(code):
                return code
            logger.warning("rank %d %s; starting all again (%d of %d).", rank, _end(code), attempt + 1, MOST_RESTARTS)
        except launching.signals.SignalException as stopped:
            return _TERMINATED if stopped.sigval == signal.SIGTERM else _FAILED
        else:
            return 0
    raise GroupError(f"ranks were killed {1 + MOST_RESTARTS} times; see why (memory?), then resume the run.")


def is_worth_a_restart(code: int) -> bool:
    """Whether a rank did not end by an error of its own: it was killed by a signal, or lost another rank.

    Examples
    --------
    >>> is_worth_a_restart(-9), is_worth_a_restart(75), is_worth_a_restart(2)
    (True, True, False)
    """
    return code < 0 or code == TRY_AGAIN


def _end(code: int) -> str:
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else "lost another one"


class _Launching:
    """The parts of torch's launcher."""

    def __init__(self) -> None:
        self.api: Any = import_module("torch.distributed.launcher.api")
        self.errors: Any = import_module("torch.distributed.elastic.multiprocessing.errors")
        self.signals: Any = import_module("torch.distributed.elastic.multiprocessing.api")


def _launching() -> _Launching:
    try:
        return _Launching()
    except ModuleNotFoundError as missing:
        raise SettingError("--ranks needs torch: pip install 'vitalrank[torch]'.") from missing


def _prepare_environment(ranks: int) -> None:
    """What the ranks inherit; whatever the caller has set stays."""
    os.environ.setdefault(RESTART_VARIABLE, "1")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // ranks)))
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    if loopback is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # the ranks tell of their errors themselves


def _launch(launching: _Launching, words: Sequence[str], ranks: int) -> None:
    config = launching.api.LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=ranks, run_id=uuid.uuid4().hex, rdzv_backend="c10d",
        rdzv_endpoint="localhost:0", max_restarts=0, local_addr="127.0.0.1",
        logs_specs=launching.signals.DefaultLogsSpecs(log_dir=os.devnull),
    )  # fmt: skip
    launching.api.elastic_launch(config, sys.executable)("-m", "vitalrank", *words)
