"""The command line: parses, calls the library, prints."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import typer
import typer.core

import vitalrank
from vitalrank.cli.failures import StoppedError, complain, run, show_warning
from vitalrank.cli.ranks import GROUPED
from vitalrank.distributed.joining import is_started

# Command -> its file, in the order of --help.
FILES = {
    "demo": "demo",
    "fit": "runs",
    "update": "update",
    "evaluate": "evaluate",
    "recommend": "serving",
    "similar": "serving",
    "fold-in": "serving",
    "explain": "serving",
    "export": "serving",
    "serve": "serving",
    "compare": "compare",
    "best": "best",
    "tune": "tune",
    "inspect": "inspect",
    "card": "card",
    "mine": "mine",
    "paper": "paper",
    "data": "data",
    "doctor": "doctor",
}


_NAMES = {"help_option_names": ["-h", "--help"]}


class Commands(typer.core.TyperGroup):
    """The commands, with their interrupts kept, and flags shown without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flag_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_flag_types(command.get_params(ctx))
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise StoppedError(str(stop)) from stop


def _without_flag_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


app = typer.Typer(
    name="vitalrank",
    cls=Commands,
    context_settings=_NAMES,
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
    """Run the command line: 0 done, 1 interrupted or failed, 2 a mistake that one line explains, 143 terminated."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # ids may be written in letters that a terminal lacks
    words = sys.argv[1:]
    if is_started() and (not words or words[0] not in GROUPED):
        sys.exit(complain(f"{' '.join(words[:1])} runs in one process; start it without torchrun.", 2))
    for name in _commands(words):
        add_command(app, name)
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        sys.exit(run(app))


def _commands(words: Sequence[str]) -> Iterable[str]:
    """The command that was typed, which starts sooner than all; all where none was."""
    return words[:1] if words and words[0] in FILES else FILES


def add_command(commands: typer.Typer, name: str) -> None:
    """Register a command, or a group of them: what its file calls by its name."""
    command = getattr(import_module(f"vitalrank.cli.{FILES[name]}"), name.replace("-", "_"))
    if isinstance(command, typer.Typer):
        commands.add_typer(command, name=name)
    else:  # paper itself says what is wrong with more words than it takes
        commands.command(name, context_settings={"allow_extra_args": name == "paper"})(command)
