"""``evaluate``: a run measured on what it held out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vitalrank.cli import completion, options
from vitalrank.cli.ranks import over_ranks
from vitalrank.distributed.joining import current_group

if TYPE_CHECKING:
    from vitalrank.models.base import Recommender

_RESAMPLES = 1_000_000


@over_ranks
def evaluate(
    run: options.Run,
    at: Annotated[list[int] | None, typer.Option(help="Length of the lists; repeatable.")] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Break down by degree (of users) or popularity (of items).",
            autocompletion=completion.among(("degree", "popularity")),
        ),
    ] = None,
    on: Annotated[
        str, typer.Option(help="Held-out part: test or valid.", autocompletion=completion.among(("test", "valid")))
    ] = "test",
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help=f"Comma-separated: {' '.join(options.METRICS)}, or all.",
            show_default="those of accuracy, and coverage",
            autocompletion=completion.among(("all", *options.METRICS)),
        ),
    ] = None,
    names: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of items with the categories for calibration.")
    ] = None,
    category: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of --names.")] = None,
    bootstrap: Annotated[
        int, typer.Option(help="Resamples for 95 % intervals; 0 for none.", min=0, max=_RESAMPLES)
    ] = 0,
    device: options.RankingDevice = None,
    json: options.Json = False,
) -> None:
    """Evaluate a run on its held-out part.

    [bold]vitalrank evaluate runs/a --at 10 --metrics ndcg,novelty,diversity[/]
    """
    import vitalrank as vr
    from vitalrank.cli.choices import print_json

    model = vr.load(run)
    if on not in model.held_out:
        raise vr.SettingError(f"{run}: holds out no {on} part; fit again with --{on} above 0.")
    others = [part for name, part in model.held_out.items() if name != on and on == "test"]
    wanted = metrics if metrics in (None, "all") else [name.strip() for name in metrics.split(",")]
    result = vr.evaluate(
        model, model.held_out[on], at=at or (5, 10, 20), by=by, exclude=others, metrics=wanted, bootstrap=bootstrap,
        device=device, categories=_categories(model, names, category), group=current_group(),
    )  # fmt: skip
    if json:
        print_json({**result, "groups": result.groups, "intervals": result.intervals})
    else:
        print(result)


def _categories(model: Recommender, names: Path | None, category: str | None) -> list[str] | None:
    """The category of each item of the model's log, by a table of items."""
    from vitalrank.errors import SettingError
    from vitalrank.serving import ItemTable

    if names is None and category is None:
        return None
    if names is None or category is None:
        raise SettingError("--names FILE and --category COLUMN go together: the table of items and its column.")
    return ItemTable.read(names).values(category, model.train.item_ids.tolist())


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(evaluate)
