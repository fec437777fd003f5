"""``inspect``: what training did to a run's items, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vitalrank._util.display import printable
from vitalrank.cli import options
from vitalrank.cli.output import print_json
from vitalrank.cli.taking import inputs_of

if TYPE_CHECKING:
    from rich.table import Table

    from vitalrank.analysis import Inspection
    from vitalrank.models.base import Recommender
    from vitalrank.training import History

_EPOCHS = 6  # shown of a history
_COLUMNS = {  # of a record: title and format; metrics follow
    "loss": ("loss", ".4f"),
    "tries": ("tries", ".1f"),
    "vanished": ("vanished", ".1%"),
    "unviolated": ("unviolated", ".1%"),
    "imbalance": ("imbalance min / med / max", ""),
}


def inspect(
    ctx: typer.Context,
    run: options.Run,
    n: options.ListLength = 10,
    sample: Annotated[int, typer.Option(help="Maximum number of users to make lists for.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Random seed of the samples.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Maximum number of threads.")] = None,
    page: Annotated[Path | None, typer.Option(help="Also write the run as an HTML page.", dir_okay=False)] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Show a run's imbalance, gradients, norms, frequency clustering and exposure, and advise what to change."""
    import vitalrank as vr
    from vitalrank.analysis import inspect_model

    if page is not None:
        vr.report.check_page(page, inputs_of(ctx), force)
    model = vr.load(run)
    parts = [part for name, part in model.held_out.items() if name == "valid"]
    found = inspect_model(model, n, exclude=parts, sample=sample, seed=seed, threads=threads)
    if page is not None:
        results = vr.report.results_of(model)
        vr.report.write_report(results, page, f"One run: {results.rows[0].label}", force=force)
    if json:
        print_json({"run": str(run), "model": repr(model), **_metadata(model.history), **found.to_dict()})
        return
    _print(model, found, model.history)
    if page is not None:
        typer.echo(f"\nThe page: {printable(page)}")


def _metadata(history: History) -> dict[str, Any]:
    kept = {"sampler": history.sampler, "training": history.settings, "best_epoch": history.best_epoch}
    return {**kept, "history": history.records}


def _print(model: Recommender, found: Inspection, history: History) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for sentence in _opening(model, history):
        console.print(sentence, highlight=False)
    console.print()
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value, meaning in _rows(found):
        table.add_row(name, value, f"[dim]{meaning}[/]")
    console.print(table)
    if history:
        console.print("\nEpochs", style="bold")
        console.print(_epochs(history))
    if found.advice:
        console.print("\nAdvice", style="bold")
    for sentence in found.advice:
        console.print(f"- {sentence}", highlight=False)


def _opening(model: Recommender, history: History) -> Iterator[str]:
    yield f"{model!r} on {model.train!r}"
    if history.settings is None:
        if history:
            yield "Sampler and settings are not kept in this folder: an older version wrote it."
        return
    kept = "" if history.best_epoch is None else f", epoch {history.best_epoch} kept"
    yield f"Trained with {history.sampler}, {len(history)} epochs{kept}"
    yield ", ".join(f"{name} {value}" for name, value in history.settings.items())


def _epochs(history: Sequence[Mapping[str, Any]]) -> Table:
    """Some epochs from first to last; a column that no record has is left out."""
    from rich.table import Table

    metrics = dict.fromkeys(name for record in history for name in record if "@" in name)
    shown = [name for name in (*_COLUMNS, *metrics) if any(record.get(name) is not None for record in history)]
    table = Table(box=None, pad_edge=False)
    for name in ("epoch", *shown):
        table.add_column(_COLUMNS.get(name, (name, ""))[0], justify="right")
    count = min(_EPOCHS, len(history))
    places = sorted({round(place * (len(history) - 1) / max(count - 1, 1)) for place in range(count)})
    for record in (history[place] for place in places):
        table.add_row(str(record["epoch"]), *(_cell(name, record.get(name)) for name in shown))
    return table


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    return _range(value) if isinstance(value, dict) else format(value, _COLUMNS.get(name, ("", ".4f"))[1])


def _rows(found: Inspection) -> Iterator[tuple[str, str, str]]:
    shown = found.exposure
    meaning = "by formula: min, median, max over items"
    for beta, values in found.imbalance_by_beta.items():
        yield f"imbalance, beta {beta:g}", _range(values), meaning
        meaning = ""
    if found.imbalance_counted:
        yield "imbalance, counted", _range(found.imbalance_counted), "in the last epoch"
    if found.tries is not None:
        yield "tries", f"{found.tries:.1f}", "draws per positive in the last epoch"
    if found.unviolated is not None:
        yield "unviolated searches", f"{found.unviolated:.1%}", "nothing within the margin in kappa draws"
    if found.vanished is not None:
        yield "vanished gradients", f"{found.vanished:.1%}", "positives whose loss has a slope below 0.01"
    if found.norm_correlation is not None:
        yield "norm against degree", f"{found.norm_correlation:+.2f}", "Spearman's correlation over items"
    if found.clustering is not None:
        accuracy = f"neighbours predict the degree class of {found.clustering.accuracy:.0%}; chance is a third"
        yield "frequency clustering", f"{found.clustering.score:.2f}", f"0 chance, 1 complete: {accuracy}"
    bands = f"{shown.head:.0%} / {shown.middle:.0%} / {shown.tail:.0%}"
    yield "head / middle / tail", bands, f"of the places in lists of {shown.n}; a third each in the log"
    yield "mean degree shown", f"{shown.mean_degree:.1f}", f"{shown.log_degree:.1f} in the log"
    yield "coverage", f"{shown.coverage:.1%}", "of the catalogue appears in some list"
    yield "Gini of exposure", f"{shown.gini:.3f}", "0: all items equally often, 1: a single item"


def _range(values: dict[str, float]) -> str:
    return f"{values['min']:.3g} / {values['median']:.3g} / {values['max']:.3g}"
