"""The report page: one HTML file that opens from disk and asks the network for nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from pathlib import Path

from vitalrank._util.files import check_output, write_text
from vitalrank._util.outputs import check_not_input
from vitalrank.comparing.planning import Method, environment
from vitalrank.comparing.results import Results
from vitalrank.comparing.runner import Runner
from vitalrank.errors import SettingError
from vitalrank.models.base import Recommender
from vitalrank.report.opening import opening, summary_sentence
from vitalrank.report.sections import SECTIONS
from vitalrank.training import TrainConfig

__all__ = ["check_page", "make_page", "results_of", "summary_sentence", "write_report"]


def make_page(results: Results, title: str = "Samplers compared") -> str:
    """The page as text.

    Examples
    --------
    >>> import vitalrank as vr
    >>> from vitalrank.comparing import compare
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> results = compare(log, ["uni"], baselines=(), seeds=1, config=vr.TrainConfig(epochs=2))
    >>> make_page(results).startswith("<!doctype html>")
    True
    """
    body = "\n".join([opening(results, title), *(section(results) for section in SECTIONS)])
    parts = {"title": escape(title), "style": _asset("page.css"), "script": _asset("page.js"), "body": body}
    head, *rest = _asset("page.html").split("{{")
    # Split once, so that braces inside a part are never taken for a place to fill.
    return head + "".join(parts[name] + after for name, _, after in (piece.partition("}}") for piece in rest))


def write_report(
    results: Results | Recommender,
    path: str | os.PathLike[str],
    title: str = "Samplers compared",
    force: bool = False,
) -> Path:
    """Write the page of a comparison.

    Parameters
    ----------
    results
        What :func:`vitalrank.compare` gave, or a fitted model whose ``held_out`` has a test set.
    path
        The HTML file. An earlier page is replaced, any other file is not.
    title
        Above the summary.
    force
        Replace any other file, too.

    Examples
    --------
    >>> import tempfile, vitalrank as vr
    >>> from vitalrank.comparing import compare
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> results = compare(log, ["uni"], baselines=(), seeds=1, config=vr.TrainConfig(epochs=2))
    >>> write_report(results, tempfile.mkdtemp() + "/report.html").name
    'report.html'
    """
    place = Path(path)
    check_page(place, force=force)
    if isinstance(results, Recommender):
        results = results_of(results)
        title = f"One run: {results.rows[0].label}" if title == "Samplers compared" else title
    write_text(place, make_page(results, title))
    return place


def check_page(path: Path, inputs: Sequence[Path] = (), force: bool = False) -> None:
    """Refuse to replace an input, or a file that is no page of ours.

    Examples
    --------
    >>> check_page(Path("no/such/page.html"))
    """
    check_not_input(path, inputs)
    check_output(path, force=force)


def results_of(model: Recommender, label: str | None = None) -> Results:
    """One trained model as a comparison of a single entry, measured on the test set it holds out.

    Parameters
    ----------
    model
        A fitted model whose ``held_out`` has a test set.
    label
        What to call it; by its class and sampler unless given, such as ``"MF with VINS"``.

    Examples
    --------
    >>> import vitalrank as vr
    >>> train, test = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0).split_last(0.2)
    >>> model = vr.MF(dim=8).fit(train, epochs=2, progress=False)
    >>> model.held_out = {"test": test}
    >>> results_of(model).rows[0].label
    'MF with VINS'
    """
    if "test" not in model.held_out:
        raise SettingError(f"{model!r} holds out no test set to measure it on; fit with one held out.")
    test = model.held_out["test"]
    runner = Runner(TrainConfig(), {"train": model.train, "valid": model.held_out.get("valid", test), "test": test})
    history = model.history
    suffix = "" if history.sampler is None else f" with {history.sampler.partition('(')[0]}"
    seconds = sum(record.get("seconds", 0.0) for record in history)
    training = history.settings or {}
    seed = int(training.get("seed", 0))
    outcome = runner.evaluate(
        model, Method(label or type(model).__name__ + suffix, lambda: model), seed, seconds, show=True
    )
    parts = {"train": model.train, **model.held_out}
    log = {"users": model.train.n_users, "items": model.train.n_items, "interactions": sum(map(len, parts.values()))}
    metadata = {"log": log, **({"training": training} if training else {}), **environment()}
    return Results(runner.config.metric, (replace(outcome, sampler=history.sampler),), metadata)


def _asset(name: str) -> str:
    return resources.files("vitalrank.report").joinpath(name).read_text(encoding="utf-8")
