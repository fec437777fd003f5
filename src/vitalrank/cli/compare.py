"""``compare``: samplers, models and seeds on one log and one split, with tables and a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vitalrank.cli import options
from vitalrank.cli.config import in_force, option_names, typed_and_filed
from vitalrank.config import TrainConfig

if TYPE_CHECKING:
    from vitalrank.comparing import Entry, Outcome, Results
    from vitalrank.history import Record


@options.takes(options.READING, options.TRAINING, options.FILES)
def compare(
    ctx: typer.Context,
    log: options.Log,
    out: Annotated[Path, typer.Option(help="Folder of the comparison; one that was stopped goes on there.")],
    samplers: Annotated[
        str,
        typer.Option(
            help=f"Names with commas: {' '.join(options.SAMPLERS)}.", autocompletion=options.complete(options.SAMPLERS)
        ),
    ] = "uni,dns,lfm-w,vins",
    models: Annotated[
        str,
        typer.Option(
            help=f"Names with commas: {' '.join(options.MODELS)}.", autocompletion=options.complete(options.MODELS)
        ),
    ] = "mf",
    seeds: Annotated[int, typer.Option(help="Runs of each, with seeds 0, 1, ...")] = 3,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.SETTING=VALUE", help="Such as vins.beta=0.5 or mf.dim=32; repeatable."),
    ] = None,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep every trained model in the folder.")] = False,
) -> None:
    """Train every model with every sampler and seed on one split of LOG, and rank them.

    Writes results.csv, .json, .tex and .md and the page report.html.
    The same command again goes on after a stop.

    [bold]vitalrank compare log.tsv --out runs/cmp --samplers uni,vins[/]
    """
    from vitalrank.cli.choices import read_log, save_config
    from vitalrank.comparing import check_tables, entries_of, run_comparison, write_tables
    from vitalrank.report.page import check_page, write_report

    config = TrainConfig(**options.training_of(ctx))
    json, force = ctx.params["json"], ctx.params["force"]
    made, makers = choices(samplers, models, typed_and_filed(ctx, "settings"))
    check_tables(out, [log], force)
    check_page(out / "report.html", [log], force)
    save_config(ctx, log, {**_typed(ctx), "set": _table(made, makers)})
    whole = read_log(log, ctx)
    runs = sum(1 if entry.sampler is None else seeds for entry in entries_of(made, makers))
    with _follower(runs, config.epochs, quiet=json) as follow:
        results = run_comparison(
            whole, made, makers, seeds=seeds, config=config, fixed=options.training_of(ctx, given=True),
            test=ctx.params["test"], valid=ctx.params["valid"], out=out, keep_models=keep_models, follow=follow,
        )  # fmt: skip
    results = replace(results, facts={**results.facts, "file": log.name})
    write_tables(results, out, force=force)
    page = write_report(results, out / "report.html", title=f"{log.name}: samplers compared", force=force)
    _print(results, page, out, json)


def _typed(ctx: typer.Context) -> dict[str, Any]:
    """The options as they stand, without training settings that nobody gave: a model may have its own for those."""
    unset = {name for name in options.FIELDS if not options.is_given(ctx, name)}
    names = option_names(ctx)
    return {key: value for key, value in in_force(ctx).items() if names[key] not in unset}


def choices(samplers: str, models: str, settings: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Samplers and makers of models by name, each with the settings meant for it."""
    from vitalrank.cli.choices import make, make_sampler, model_kind, split_settings
    from vitalrank.errors import SettingError

    names, kinds = _names(samplers), {name: model_kind(name) for name in _names(models)}
    given: dict[str, list[str]] = {name: [] for name in [*names, *kinds]}
    for setting in settings:
        name, dot, rest = setting.partition(".")
        if not dot or "=" not in rest or "=" in name:
            raise SettingError(f"--set {setting!r} is not NAME.SETTING=VALUE, such as vins.beta=0.5.")
        if name not in given:
            raise SettingError(f"--set {setting!r}: {name!r} is not compared; these are: {', '.join(given)}.")
        given[name].append(rest)
    shapes = dict(given)
    for name in names:
        if name in kinds:  # cml and irgan are both a model and a sampler
            shapes[name], given[name] = split_settings(given[name], kinds[name])
    made = {name: make_sampler(name, given[name]) for name in names}
    makers = {name: partial(make, kind, name, shapes[name]) for name, kind in kinds.items()}
    for maker in makers.values():
        maker()  # a wrong setting is told now
    return made, makers


def _table(samplers: Mapping[str, Any], makers: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of what is compared, as a config file holds it."""
    from vitalrank.cli.choices import plain

    each = [*samplers.items(), *((name, maker()) for name, maker in makers.items())]
    return {f"{name}.{key}": value for name, part in each for key, value in plain(part).items()}


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


@contextmanager
def _follower(runs: int, epochs: int, quiet: bool) -> Iterator[Callable[[Entry, int, Record | Outcome], None] | None]:
    """A bar over the runs on a terminal, a line per finished run in a pipe, nothing if quiet."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from vitalrank.comparing import Outcome

    console = Console(stderr=True)
    if quiet:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=runs)

        def follow(entry: Entry, seed: int, news: Record | Outcome) -> None:
            name = f"{entry.label}, seed {seed}"
            if isinstance(news, Outcome):
                bar.update(task, advance=1, description=name)
                console.print(f"{name}: done in {news.seconds:.1f} s", highlight=False)
            else:
                bar.update(task, description=f"{name}, epoch {news['epoch']} of {epochs}")

        yield follow


def _print(results: Results, page: Path, out: Path, json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from vitalrank.cli.choices import print_json
    from vitalrank.comparing.tables import cells, flat
    from vitalrank.report.page import summary_sentence

    if json:
        ranking = [flat(row) for row in results.rows]
        print_json({"out": str(out), "report": str(page), "metric": results.metric, "ranking": ranking})
        return
    header, *rows = cells(results, narrow=True)
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for column, name in enumerate(header):
        table.add_column(name, justify="left" if column == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print(f"\n{summary_sentence(results)}", highlight=False)
    console.print(f"Tables and page: {page}", highlight=False, soft_wrap=True)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(compare)
