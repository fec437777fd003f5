"""Commands that several ranks run together: started by ``--ranks N``, or each by torchrun."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from vitalrank.distributed.joining import is_restarted, is_started, join_group
from vitalrank.errors import GroupError, SettingError

Ranks = Annotated[
    int | None, typer.Option(help="Processes that share the work, on this machine.", min=1, show_default="one")
]
GROUPED = ("fit", "evaluate", "recommend", "doctor")  # commands that ranks can run
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # where torchrun looks for what a rank died of


class QuietExit(BaseException):
    """The end of a rank whose error another one reports."""


def over_ranks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option ``--ranks``; with it the command starts ranks, each of which runs the command."""
    own = signature(command, eval_str=True)

    @wraps(command)
    def run(*, ranks: int | None, **values: Any) -> None:
        if is_started():
            with _as_rank(ranks):
                command(**values)
        elif ranks is None or ranks == 1:
            command(**values)
        else:
            from vitalrank.distributed.launcher import start_ranks

            raise typer.Exit(start_ranks(sys.argv[1:], ranks, ["--resume"] if "resume" in values else []))

    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own.parameters.values()]
    asked = Parameter("ranks", Parameter.KEYWORD_ONLY, default=None, annotation=Ranks)
    run.__signature__ = own.replace(parameters=[*parameters, asked])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*parameters, asked)}
    return run


@contextmanager
def _as_rank(ranks: int | None) -> Iterator[None]:
    """Run a command as one rank of a group: rank 0 alone prints, and an error of one ends all."""
    _stop_if_hopeless()
    size = int(os.environ["WORLD_SIZE"])
    if ranks is not None and ranks != size:
        raise SettingError(f"--ranks is {ranks}, but torchrun started {size}; leave out --ranks.")
    group = join_group()
    if not group.is_rank_zero:
        _fall_silent()
    try:
        with group.stop_others_on_error():
            yield
    except Exception as error:
        _leave_note(error)
        raise


def _fall_silent() -> None:
    """What rank 0 says too need not be said again."""
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the process ends
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def is_reporter(error: BaseException | None = None) -> bool:
    """Whether this process reports an error: rank 0, or the first that is left where that one is gone."""
    if not is_started():
        return True
    gone = error.gone if isinstance(error, GroupError) else ()
    left = (rank for rank in range(int(os.environ["WORLD_SIZE"])) if rank not in gone)
    return int(os.environ.get("RANK", "0")) == next(left, 0)


def _leave_note(error: Exception) -> None:
    """Write down an error that would come again, where torchrun reports it and the next attempt finds it."""
    path = os.environ.get(_ERROR_FILE)
    if path and not (isinstance(error, GroupError) and error.gone):
        facts = {"message": str(error), "extraInfo": {"timestamp": str(int(time.time()))}}
        try:
            Path(path).write_text(json.dumps({"message": facts}), encoding="utf-8")
        except OSError:  # a full disk may be the error itself
            return


def _stop_if_hopeless() -> None:
    """End a rank that torchrun starts again after an error that would come again."""
    path = os.environ.get(_ERROR_FILE)
    if path and is_restarted() and any(Path(path).parents[2].glob("attempt_*/*/error.json")):
        raise QuietExit
