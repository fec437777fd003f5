"""Completion of names on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer


def among(names: Sequence[str] | Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    """Completion of a name, or of the last of several names with commas; a function of them is called when needed.

    Examples
    --------
    >>> among(["uni", "vins", "dns"])("uni,v")
    ['uni,vins']
    """

    def offer(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = names() if callable(names) else names
        return [before + comma + name for name in known if name.startswith(last)]

    return offer


def several(names: Sequence[str], **look: Any) -> Any:
    """An option that takes names with commas between them."""
    return typer.Option(help=f"Comma-separated: {' '.join(names)}.", autocompletion=among(names), **look)


def dataset_names() -> list[str]:
    """Names of the known data sets."""
    from vitalrank.datasets import catalogue

    return [dataset.name for dataset in catalogue()]


def experiment_names() -> list[str]:
    """Names of the paper's tables and figures."""
    from vitalrank.paper.registry import ALL, EXPERIMENTS

    return [*EXPERIMENTS, ALL]


def method_names() -> list[str]:
    """Names of the methods of the paper's study."""
    from vitalrank.paper.methods import METHODS

    return list(METHODS)
