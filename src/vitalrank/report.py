"""The report page: one HTML file that opens from disk and asks the network for nothing."""

from __future__ import annotations

import os
from html import escape
from importlib import resources
from pathlib import Path

from vitalrank.comparing.outcomes import write_text
from vitalrank.comparing.results import Results
from vitalrank.reporting.sections import SECTIONS, opening, summary_sentence

__all__ = ["make_page", "summary_sentence", "write_report"]


def make_page(results: Results, title: str = "Samplers compared") -> str:
    """The page as text.

    Examples
    --------
    >>> import vitalrank as vr
    >>> from vitalrank.comparing import run_comparison
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> results = run_comparison(log, {"uni": vr.Uniform()}, seeds=1, config=vr.TrainConfig(epochs=2))
    >>> make_page(results).startswith("<!doctype html>")
    True
    """
    body = "\n".join([opening(results, title), *(section(results) for section in SECTIONS)])
    parts = {"title": escape(title), "style": _asset("page.css"), "script": _asset("page.js"), "body": body}
    head, *rest = _asset("page.html").split("{{")
    # Split once, so that braces inside a part are never taken for a place to fill.
    return head + "".join(parts[name] + after for name, _, after in (piece.partition("}}") for piece in rest))


def write_report(results: Results, path: str | os.PathLike[str], title: str = "Samplers compared") -> Path:
    """Write the page of a comparison.

    Parameters
    ----------
    results
        What :func:`vitalrank.comparing.run_comparison` gave.
    path
        The HTML file.
    title
        Above the summary.

    Examples
    --------
    >>> import tempfile, vitalrank as vr
    >>> from vitalrank.comparing import run_comparison
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> results = run_comparison(log, {"uni": vr.Uniform()}, seeds=1, config=vr.TrainConfig(epochs=2))
    >>> write_report(results, tempfile.mkdtemp() + "/report.html").name
    'report.html'
    """
    place = Path(path)
    write_text(place, make_page(results, title))
    return place


def _asset(name: str) -> str:
    return resources.files("vitalrank.reporting").joinpath(name).read_text(encoding="utf-8")
