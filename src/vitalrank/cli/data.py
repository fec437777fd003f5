"""``vitalrank data``: list, get and prepare logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from vitalrank._util.display import printable
from vitalrank.cli import Commands, completion, options, taking
from vitalrank.cli.output import print_json
from vitalrank.errors import SettingError

data = typer.Typer(help="Known data sets: list, get, prepare.", no_args_is_help=True, cls=Commands)
Share = Annotated[float, typer.Option(help="With --out: share held out for testing.")]
ValidShare = Annotated[float, typer.Option(help="With --out: share of the rest held out for validation.")]
Split = Annotated[
    str,
    typer.Option(
        help="With --out: hold out each user's last rows (last), the last one (loo), or the latest by time (time).",
        autocompletion=completion.among(("last", "loo", "time")),
    ),
]
Cutoff = Annotated[str | None, typer.Option(metavar="TIME", help="With --split time: start of the test set.")]
Memory = Annotated[str, typer.Option(help="With --out: maximum memory of the process.")]
Temp = Annotated[Path | None, typer.Option(help="With --out: folder for temporary files.", show_default="inside --out")]
PREPARED = {
    "split": (Split, "last"),
    "test": (Share, 0.0),
    "valid": (ValidShare, 0.0),
    "cutoff": (Cutoff, None),
    "memory": (Memory, "1GiB"),
    "temp": (Temp, None),
}
Cache = Annotated[Path | None, typer.Option(help="Folder for downloads; by default the user's cache folder.")]


@data.command("list")
def list_(json: options.Json = False) -> None:
    """Show the known data sets and their terms."""
    from rich.console import Console
    from rich.table import Table

    from vitalrank import datasets

    if json:
        print_json({known.name: {"about": known.about, "terms": known.terms} for known in datasets.catalogue()})
        return
    table = Table("name", "description", "terms", box=None)
    for dataset in datasets.catalogue():
        table.add_row(dataset.name, dataset.about, dataset.terms)
    Console().print(table)


@data.command()
def get(
    name: Annotated[
        str,
        typer.Argument(help="A name that data list shows.", autocompletion=completion.among(completion.dataset_names)),
    ],
    cache: Cache = None,
    json: options.Json = False,
) -> None:
    """Download a data set, or resume an interrupted download; prints its path."""
    from vitalrank import datasets

    place = datasets.get(name, cache)
    if json:
        print_json({"name": name, "place": place})
    else:
        typer.echo(printable(place))


@data.command()
@taking.takes(options.FORMAT, PREPARED)
def prepare(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            help="A file, folder, glob pattern or URL, or a name that data list shows.",
            autocompletion=completion.among(completion.dataset_names),
        ),
    ],
    target: Annotated[Path | None, typer.Argument(help="The Parquet file to write.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Instead of TARGET: the folder of a prepared log, made in bounded memory and mapped by fit."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Read and filter the file as this known data set, as the papers do.",
            autocompletion=completion.among(completion.dataset_names),
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
    """Turn a raw file into a clean Parquet log, or files of any size into a prepared log, and print its statistics.

    [bold]vitalrank data prepare log.csv log.parquet[/]

    [bold]vitalrank data prepare s3://bucket/log/ --out prepared --test 0.2 --valid 0.1 --memory 2GiB[/]
    """
    from vitalrank import datasets

    if (target is None) == (out is None):
        raise SettingError("give either TARGET, a Parquet file to write, or --out, the folder of a prepared log.")
    reading = {"preset": preset, "min_user": min_user, "min_item": min_item, "cache": cache, **options.format_of(ctx)}
    if out is not None:
        if force:
            raise SettingError("--force is for TARGET; a folder of other files is never replaced, so leave it out.")
        return _prepare_folder(ctx, source, out, reading, json)
    others = [f"--{name}" for name in PREPARED if taking.is_typed(ctx, name)]
    if others:
        raise SettingError(f"{', '.join(others)}: only with --out; leave it out.")
    assert target is not None
    shape = datasets.prepare(source, target, force=force, **reading)
    if json:
        print_json({"file": str(target), **asdict(shape)})
    else:
        _show(str(target), shape.rows())
    return None


def _prepare_folder(ctx: typer.Context, source: str, out: Path, reading: dict[str, Any], json: bool) -> None:
    from rich.console import Console

    import vitalrank as vr
    from vitalrank import datasets

    path, given = datasets.source_of(source, **reading)
    settings = {name: ctx.params[name] for name in PREPARED}
    with Console(stderr=True).status("preparing") as status:
        prepared = vr.prepare_log(path, out, **given, **settings, progress=status.update)
    facts = {"users": prepared.n_users, "items": prepared.n_items}
    facts |= {f"rows of {name}": prepared.rows(name) for name in prepared.parts}
    facts |= {"repeated pairs dropped": prepared.repeats, "unreadable lines skipped": prepared.skipped}
    if json:
        print_json({"folder": str(out), **facts})
    else:
        _show(str(out), [(name, f"{count:,}") for name, count in facts.items()])


def _show(title: str, rows: Iterable[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(printable(title)), box=None, show_header=False, title_justify="left")
    for label, value in rows:
        table.add_row(label, value)
    Console().print(table)
