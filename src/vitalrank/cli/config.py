"""Settings in a TOML file: each key is a long option without its dashes, ``[set]`` and ``[range]`` are tables."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from vitalrank._util.display import first_line, listed, printable, quoted
from vitalrank.errors import SettingError, StorageError

# What a command is asked to do this time, not how.
_LEFT_OUT = frozenset({"log", "out", "resume", "json", "config", "save-config", "force", "ranks", "help"})
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def from_file(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take a command's defaults from a config file; typed options still win. A callback of ``--config``."""
    if path is not None and not ctx.resilient_parsing:
        known = option_names(ctx)
        parameters: dict[str, Any] = {str(parameter.name): parameter for parameter in ctx.command.params}
        ctx.default_map = {}
        for key, value in read_config(path, known, str(ctx.command.name)).items():
            parameter = parameters[known[key]]
            typed = _list(path, key, value) if parameter.multiple else _text(path, key, value)
            _try(ctx, parameter, typed, f"{path}: {key} = {_value(value)}")
            ctx.default_map[known[key]] = typed
    return path


def _try(ctx: typer.Context, parameter: Any, typed: object, where: str) -> None:
    """Refuse here, where the file is known, what the option would refuse later."""
    try:
        parameter.process_value(ctx, typed)
    except Exception as error:
        explain = getattr(error, "format_message", None)
        if explain is None:
            raise
        raise SettingError(f"{where} is not allowed. {explain()}") from error


def option_names(ctx: typer.Context) -> dict[str, str]:
    """Key in a file -> parameter, for the options that a file may hold."""
    flags = {max(parameter.opts, key=len).lstrip("-"): parameter.name for parameter in ctx.command.params}
    return {key: name for key, name in flags.items() if key not in _LEFT_OUT}


def read_config(path: Path, known: Mapping[str, str], command: str) -> dict[str, Any]:
    """The keys and values of a file, all of them known; dashes and underscores are the same."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StorageError(f"{path}: no such file; give a config file in TOML.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path}: cannot be read as a config file ({error}).") from error
    except RecursionError as error:
        raise SettingError(f"{path}: is nested too deeply; write lines such as epochs = 50.") from error
    except ValueError as error:  # also a number too long for Python
        raise SettingError(f"{path}: is not TOML ({first_line(error)}); write lines such as epochs = 50.") from error
    values = {key.replace("_", "-"): value for key, value in found.items()}
    for key in values:
        if key not in known:
            raise SettingError(f"{path}: {command} has no setting {quoted(key)}; it has {listed(sorted(known))}.")
    return values


def typed_and_filed(ctx: typer.Context, name: str) -> list[str]:
    """The values of a repeatable option: those of the config file, then those that were typed, which win."""
    typed = list(ctx.params[name] or ())
    filed = list((ctx.default_map or {}).get(name, ()))
    return typed if typed == filed else filed + typed


def in_force(ctx: typer.Context) -> dict[str, Any]:
    """The options of a command as they stand, by their keys in a file; what is unset is left out."""
    return {key: ctx.params[name] for key, name in option_names(ctx).items() if ctx.params.get(name) is not None}


def to_toml(values: Mapping[str, Any], comments: Sequence[str] = ()) -> str:
    r"""Values as TOML: words, numbers, true and false, lists of them, and tables one level deep.

    Examples
    --------
    >>> print(to_toml({"model": "mf", "epochs": 50, "set": {"dim": 64}}, ["the winner"]), end="")
    # the winner
    model = "mf"
    epochs = 50
    <BLANKLINE>
    [set]
    dim = 64
    """
    lines = [f"# {printable(comment)}" for comment in comments]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in values.items() if not isinstance(value, Mapping)]
    for key, table in values.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_value(value)}" for name, value in table.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    # TOML escapes as JSON does, and one character more.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(path: Path, key: str, value: object) -> list[str]:
    """What a repeatable option takes: a list as it is, a table as ``NAME=VALUE``."""
    if isinstance(value, Mapping):
        return [f"{name}={_joined(path, f'{key}.{name}', one)}" for name, one in _flat(value)]
    if isinstance(value, list):
        return [_text(path, key, one) for one in value]
    raise SettingError(f"{path}: {printable(key)} is {quoted(value)}; write it as a table, [{key}], or as a list.")


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a table by dotted names: ``vins.beta = 1`` is a table in a table."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _joined(path: Path, key: str, value: object) -> str:
    return ",".join(_text(path, key, one) for one in value) if isinstance(value, list) else _text(path, key, value)


def _text(path: Path, key: str, value: object) -> str:
    """A value as it would be typed."""
    if not isinstance(value, (str, int, float)):
        raise SettingError(f"{path}: {printable(key)} is {quoted(value)}; give a word, a number, true or false.")
    return value if isinstance(value, str) else _value(value)
