"""Commands run in this process: exit codes, what was told, what was complained about."""

from __future__ import annotations

import json
import sys

import pytest

import vitalrank as vr
from vitalrank import cli

QUICK = ("--epochs", "2", "--threads", "1")


def write_log(path):
    """A small log with times."""
    made = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    rows = zip(made.user_ids[made.users], made.item_ids[made.items], range(len(made)), strict=True)
    path.write_text("user\titem\ttime\n" + "".join(f"u{u}\ti{i}\t{t}\n" for u, i, t in rows))
    return path


def call(*words):
    """The exit code of a command."""
    before, sys.argv = sys.argv, ["vitalrank", *map(str, words)]
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code
    finally:
        sys.argv = before


def told(capsys, *words):
    """Standard output of a command that works, as JSON."""
    assert call(*words, "--json") == 0
    return json.loads(capsys.readouterr().out, parse_constant=_refuse)


def _refuse(word):
    raise ValueError(f"{word} is not JSON")


def complaint(capsys, *words):
    """The one line that a command with a mistake leaves on standard error."""
    assert call(*words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err
