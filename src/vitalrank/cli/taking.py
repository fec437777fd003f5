"""How a command takes options that several share, and what it asks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from shlex import quote
from typing import Any

import typer

_READ = ("log", "test_log", "config", "names", "items", "exclude_items", "history")  # options that name a file to read


def inputs_of(ctx: typer.Context) -> list[Path]:
    """The files that a command reads, which none of its outputs may replace.

    Of a run they are those of the model; other files, such as a page or a card, may be written beside them.
    """
    from vitalrank.checkpoint import IDS, META, TENSORS

    found = [Path(ctx.params[name]) for name in _READ if ctx.params.get(name) is not None]
    run = ctx.params.get("run")
    return found + ([] if run is None else [Path(run) / name for name in (META, TENSORS, IDS)])


def is_typed(ctx: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line itself."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def takes(*groups: Mapping[str, tuple[Any, Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these groups; it finds their values in ``ctx.params``."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        own = signature(command, eval_str=True).parameters
        shared = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for group in groups
            for name, (annotation, default) in group.items()
        ]

        @wraps(command)
        def run(**values: Any) -> None:
            given = values["ctx"].params
            given.update({name: values[name] for name in given})  # older typers leave the typed text there
            command(**{name: values[name] for name in own})

        each = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own.values()] + shared
        run.__signature__ = signature(command).replace(parameters=each)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in each}
        return run

    return add


def is_given(ctx: typer.Context, name: str) -> bool:
    """Whether an option was typed or stands in the config file."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def repeated(ctx: typer.Context, options: Mapping[str, tuple[Any, Any]]) -> str:
    """The options that are not at their default, as they are typed, for another command; each after a blank."""
    return "".join(
        f" {_typed(name, ctx.params[name])}" for name, (_, default) in options.items() if ctx.params[name] != default
    )


def _typed(name: str, value: object) -> str:
    """An option with its value.

    Examples
    --------
    >>> _typed("min_user", 5), _typed("no_time", True), _typed("header", False), _typed("sep", "; ")
    ('--min-user 5', '--no-time', '--no-header', "--sep '; '")
    """
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {quote(str(value))}"
