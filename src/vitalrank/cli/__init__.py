"""The command line: parses, calls the library, prints."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import typer
import typer.core

import vitalrank
from vitalrank.errors import VitalrankError

# Command -> its file, in the order of --help.
FILES = {
    "demo": "demo",
    "fit": "runs",
    "evaluate": "runs",
    "recommend": "runs",
    "similar": "runs",
    "compare": "compare",
    "tune": "tune",
    "inspect": "inspect",
    "paper": "paper",
    "data": "data",
    "doctor": "doctor",
}

_LESS = "a smaller dim, fewer negatives or candidates, shorter lists"


class StoppedError(Exception):
    """Ctrl-C, with what the library says about it: typer would turn it into a bare exit code."""


class Commands(typer.core.TyperGroup):
    """The commands, with their interrupts kept."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise StoppedError(str(stop)) from stop


app = typer.Typer(
    name="vitalrank",
    cls=Commands,
    help="Personalized ranking from an interaction log, trained on the negatives that still teach something.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"vitalrank {vitalrank.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Personalized ranking from an interaction log, trained on the negatives that still teach something."""


def main() -> None:
    """Run the command line: 0 done, 1 interrupted or failed, 2 a mistake that one line explains."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # ids may be written in letters that a terminal lacks
    for file in _files(sys.argv[1:]):
        import_module(f"vitalrank.cli.{file}").add_to(app)
    sys.exit(_run())


def _files(words: Sequence[str]) -> Iterable[str]:
    """The file of the command that was typed, which starts sooner than all; all where none was."""
    return [FILES[words[0]]] if words and words[0] in FILES else dict.fromkeys(FILES.values())


def _run() -> int:
    try:
        # Not standalone: errors come back here, to be told in one line.
        code = int(app(standalone_mode=False) or 0)
        sys.stdout.flush()  # here, where a full disk can still be told
        return code
    except VitalrankError as error:
        return _complain(str(error), 2)
    except StoppedError as stop:
        return _complain(str(stop) or "interrupted.", 1)
    except BrokenPipeError:  # the reader of our output left, as `head` does
        sys.stderr.close()
        return 1
    except MemoryError as error:
        return _complain(f"out of memory: {str(error) or 'no more can be had'}. Ask for less: {_LESS}.", 2)
    except OSError as error:
        _drop_output()
        return _complain(f"cannot read or write: {error}.", 2)
    except Exception as error:
        explain = getattr(error, "format_message", None)  # a mistyped command or option
        if explain is None:
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "vitalrank")
        # Without a message the help was shown in its place.
        return _complain(f"{explain()} See {command} --help.", 2) if explain() else 2


def _drop_output() -> None:
    """Forget what could not be printed: Python would try again when it ends."""
    with contextlib.suppress(OSError, ValueError):  # captured, or closed already
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, code: int) -> int:
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True).print(
        f"[bold red]error:[/] {escape(' '.join(message.split()))}", soft_wrap=True, highlight=False
    )
    return code
