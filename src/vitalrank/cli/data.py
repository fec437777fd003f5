"""``vitalrank data``: list, fetch and prepare logs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vitalrank.cli import options

app = typer.Typer(help="Known data sets: list, fetch, prepare.", no_args_is_help=True)
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
    table = Table("name", "what it is", "terms", box=None)
    for dataset in datasets.catalogue():
        table.add_row(dataset.name, dataset.about, dataset.terms)
    Console().print(table)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A name from the list.")], cache: Cache = None, json: options.Json = False
) -> None:
    """Download a data set, or go on with a download that broke off; prints where it is."""
    from vitalrank import datasets
    from vitalrank.cli.choices import print_json

    place = datasets.get(name, cache)
    if json:
        print_json({"name": name, "place": place})
    else:
        typer.echo(place)


@app.command()
def prepare(
    source: Annotated[str, typer.Argument(help="A file, or a name from the list.")],
    target: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    preset: Annotated[
        str | None, typer.Option(help="Read and filter the file as this data set of the list, as the papers do.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="User column: name, or position from 0 without header.")] = None,
    item: Annotated[str | None, typer.Option(help="Item column.")] = None,
    time: Annotated[str | None, typer.Option(help="Time column.")] = None,
    no_time: Annotated[bool, typer.Option("--no-time", help="Ignore times; keep the order of the file.")] = False,
    sep: Annotated[str | None, typer.Option(help="Separator, if it is not found.")] = None,
    header: Annotated[bool | None, typer.Option(help="Whether the first line names the columns.")] = None,
    min_user: Annotated[int | None, typer.Option(help="Least rows per user, iterated.")] = None,
    min_item: Annotated[int | None, typer.Option(help="Least rows per item, iterated.")] = None,
    on_bad: Annotated[str, typer.Option(help="Unreadable lines: raise or skip.")] = "raise",
    cache: Cache = None,
    json: options.Json = False,
) -> None:
    """Turn a raw file into a clean Parquet log and print its statistics."""
    from rich.console import Console
    from rich.table import Table

    from vitalrank import datasets
    from vitalrank.cli.choices import print_json

    columns = {"user": column(user), "item": column(item), "time": False if no_time else column(time)}
    given = {"sep": sep, "header": header, "on_bad": on_bad, **columns}
    reading = {name: value for name, value in given.items() if value is not None}
    shape = datasets.prepare(
        source, target, preset=preset, min_user=min_user, min_item=min_item, cache=cache, **reading
    )
    if json:
        print_json({"file": str(target), **asdict(shape)})
        return
    table = Table(title=str(target), box=None, show_header=False, title_justify="left")
    for label, value in shape.rows():
        table.add_row(label, value)
    Console().print(table)


def column(text: str | None) -> str | int | None:
    """A column as typed on the command line: digits are a position.

    Examples
    --------
    >>> column("user_id"), column("3")
    ('user_id', 3)
    """
    return int(text) if text is not None and text.isdecimal() else text


def add_to(parent: typer.Typer) -> None:
    """Register the commands of this file."""
    parent.add_typer(app, name="data")
