"""How a command ends: exit codes, and one line on standard error in place of a traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import typer

from vitalrank._util.display import first_line, printable
from vitalrank.cli.ranks import QuietExit, is_reporter
from vitalrank.distributed.joining import is_started
from vitalrank.distributed.launcher import TRY_AGAIN
from vitalrank.errors import GroupError, VitalrankError

TRACEBACK = "VITALRANK_TRACEBACK"  # in the environment: show where an unexpected error comes from
_TERMINATED = 128 + signal.SIGTERM
# A mistyped command or option. Some versions of typer hold a copy of click, others depend on it.
_MISTYPED: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_INTERRUPTED = 128 + signal.SIGINT  # typer's code for Ctrl-C before a command has begun
_AGAIN_SECONDS = 0.05
_LESS = "a smaller dim, fewer negatives or candidates, shorter lists"


class StoppedError(Exception):
    """Ctrl-C, with what the library says about it: typer would turn it into a bare exit code."""


def run(app: typer.Typer) -> int:
    """The exit code of the command that was typed.

    0: done. 1: interrupted or failed. 2: a mistake that one line explains. 143: terminated, as by ``kill``.
    """
    with _terminable() as terminated:
        try:
            # Not standalone: errors come back here, to be reported in one line.
            code = int(app(standalone_mode=False) or 0)
            if code == _INTERRUPTED:
                raise KeyboardInterrupt
            sys.stdout.flush()  # here, where a full disk can still be reported
            return code
        except (StoppedError, KeyboardInterrupt) as stop:
            code = _TERMINATED if terminated else 1
            if is_started() and not str(stop):  # torch's launcher ends the ranks after an error of one
                return code
            return complain(str(stop) or "interrupted.", code)
        except QuietExit:
            return 2
        except BrokenPipeError:  # the reader of our output left, as `head` does
            sys.stderr.close()
            return 1
        except Exception as error:
            return _explain(error)


def show_warning(message: Warning | str, *place: object, **more: object) -> None:
    """Print a warning in one line on standard error; Python's own way adds a line of the program."""
    if is_reporter():
        _print(str(message), 0, "[bold yellow]warning:[/]")


def complain(message: str, code: int) -> int:
    """Print one line on standard error; of several ranks rank 0 does."""
    if not is_reporter():
        return code
    return _print(message, code)


def _print(message: str, code: int, kind: str = "[bold red]error:[/]") -> int:
    from rich.console import Console
    from rich.markup import escape

    line = printable(" ".join(message.split()))
    Console(stderr=True).print(f"{kind} {escape(line)}", soft_wrap=True, highlight=False)
    return code


def _explain(error: Exception) -> int:
    """The exit code of an error, and its line."""
    if isinstance(error, _MISTYPED):
        message = error.format_message()
        command = getattr(getattr(error, "ctx", None), "command_path", "vitalrank")
        # Without a message the help was shown in its place.
        ended = message if message.endswith("?") else f"{message.removesuffix('.')}."
        return complain(f"{ended} See {command} --help.", 2) if message else 2
    if isinstance(error, GroupError):
        code = TRY_AGAIN if error.gone else 2
        return _print(str(error), code) if is_reporter(error) else code
    if isinstance(error, VitalrankError):
        return complain(str(error), 2)
    if _is_out_of_memory(error):
        return complain(f"out of memory: {first_line(error)}. Use less of it: {_LESS}.", 2)
    if isinstance(error, UnicodeError):
        return complain(f"text that is not valid UTF-8 ({first_line(error)}); rename the file or retype the value.", 2)
    # Before Python 3.13, a loop of symbolic links was a RuntimeError.
    if isinstance(error, OSError) or (isinstance(error, RuntimeError) and "Symlink loop" in str(error)):
        _drop_output()
        return complain(f"cannot read or write: {error}.", 2)
    if os.environ.get(TRACEBACK):
        raise error
    kind = type(error).__name__
    return complain(
        f"unexpected {kind}: {first_line(error)}. Please report it; {TRACEBACK}=1 shows where it occurs.", 1
    )


def _is_out_of_memory(error: Exception) -> bool:
    """NumPy raises MemoryError; torch an error of its own on a GPU and a plain RuntimeError on the CPU."""
    torch: Any = sys.modules.get("torch")
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


@contextlib.contextmanager
def _terminable() -> Iterator[list[int]]:
    """Treat SIGTERM as Ctrl-C, by whatever handler that has at the time; the list then holds the signal."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, handle)
    except ValueError:  # outside the main thread, as in a test runner's
        yield received
        return
    show = sys.unraisablehook

    def ignored(what: sys.UnraisableHookArgs) -> None:
        if not isinstance(what.exc_value, KeyboardInterrupt):
            show(what)
            return
        # The signal came during a callback of the garbage collector, where Python drops exceptions: once more.
        again = signal.SIGTERM if received else signal.SIGINT
        threading.Timer(_AGAIN_SECONDS, _send_to_self, (again,)).start()

    sys.unraisablehook = ignored
    try:
        yield received
    finally:
        sys.unraisablehook = show
        signal.signal(signal.SIGTERM, before)


def _send_to_self(number: int) -> None:
    """Send the signal to the main thread, so that it ends a system call; os.kill of Windows would end the process."""
    os.kill(os.getpid(), number) if os.name == "posix" else signal.raise_signal(number)


def _drop_output() -> None:
    """Forget what could not be printed: Python would try again when it ends."""
    with contextlib.suppress(OSError, ValueError):  # captured, or closed already
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
