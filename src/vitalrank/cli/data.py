"""``vitalrank data``: list, fetch and prepare logs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vitalrank._util.display import printable
from vitalrank.cli import Commands, options

app = typer.Typer(help="Known data sets: list, fetch, prepare.", no_args_is_help=True, cls=Commands)
Cache = Annotated[Path | None, typer.Option(help="Folder for downloads; by default the user's cache folder.")]


@app.command("list")
def list_(json: options.Json = False) -> None:
    """Show the known data sets and their terms."""
    from rich.console import Console
    from rich.table import Table

    from vitalrank import datasets
    from vitalrank.cli.choices import print_json

    if json:
        print_json({known.name: {"about": known.about, "terms": known.terms} for known in datasets.catalogue()})
        return
    table = Table("name", "description", "terms", box=None)
    for dataset in datasets.catalogue():
        table.add_row(dataset.name, dataset.about, dataset.terms)
    Console().print(table)


@app.command()
def get(
    name: Annotated[
        str,
        typer.Argument(help="A name that data list shows.", autocompletion=options.complete(options.dataset_names)),
    ],
    cache: Cache = None,
    json: options.Json = False,
) -> None:
    """Download a data set, or resume an interrupted download; prints its path."""
    from vitalrank import datasets
    from vitalrank.cli.choices import print_json

    place = datasets.get(name, cache)
    if json:
        print_json({"name": name, "place": place})
    else:
        typer.echo(printable(place))


@app.command()
@options.takes(options.FORMAT)
def prepare(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            help="A file, or a name that data list shows.", autocompletion=options.complete(options.dataset_names)
        ),
    ],
    target: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    preset: Annotated[
        str | None,
        typer.Option(
            help="Read and filter the file as this known data set, as the papers do.",
            autocompletion=options.complete(options.dataset_names),
        ),
    ] = None,
    min_user: Annotated[
        int | None, typer.Option(help="Minimum interactions of a user; iterated with --min-item.")
    ] = None,
    min_item: Annotated[int | None, typer.Option(help="Minimum interactions of an item.")] = None,
    cache: Cache = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Turn a raw file into a clean Parquet log and print its statistics."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from vitalrank import datasets
    from vitalrank.cli.choices import print_json

    shape = datasets.prepare(
        source, target, preset=preset, min_user=min_user, min_item=min_item, cache=cache, force=force,
        **options.format_of(ctx),
    )  # fmt: skip
    if json:
        print_json({"file": str(target), **asdict(shape)})
        return
    table = Table(title=escape(printable(target)), box=None, show_header=False, title_justify="left")
    for label, value in shape.rows():
        table.add_row(label, value)
    Console().print(table)


def add_to(parent: typer.Typer) -> None:
    """Register the commands of this file."""
    parent.add_typer(app, name="data")
