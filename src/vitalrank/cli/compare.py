"""``compare``: samplers, models and seeds on one log and one split, with tables and a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vitalrank._util.display import printable
from vitalrank.cli import completion, options, taking
from vitalrank.cli.config import in_force, option_names, typed_and_filed
from vitalrank.cli.output import print_json, ranking_table
from vitalrank.cli.taking import inputs_of
from vitalrank.config import TrainConfig

if TYPE_CHECKING:
    from vitalrank.comparing import Method, Outcome, Results, RunCallback
    from vitalrank.history import Record
    from vitalrank.tuning import Tuned


@taking.takes(options.READING, options.TRAINING, options.FILES)
def compare(
    ctx: typer.Context,
    log: options.Log,
    out: Annotated[Path, typer.Option(help="Folder of the comparison; one that was stopped is continued.")],
    samplers: Annotated[str, completion.several(options.SAMPLERS)] = "uni,dns,lfm-w,vins",
    models: Annotated[str, completion.several(options.MODELS)] = "mf",
    baselines: Annotated[
        str | None,
        typer.Option(
            help="Models without a sampler to compare with, comma-separated, or none.",
            show_default="mostpopular,itemknn,ease",
            autocompletion=completion.among(("none", *options.BASELINES)),
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each method, with seeds 0, 1, ...")] = 3,
    tune: Annotated[
        int,
        typer.Option(metavar="TRIALS", help="First tune the settings of each method on valid, with this many trials."),
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME.SETTING=VALUE",
            help="A setting of one sampler, model or baseline: vins.beta=0.5, uni.reg=0.01, ease.reg=100; repeatable.",
        ),
    ] = None,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep every trained model in the folder.")] = False,
) -> None:
    """Train every model with every sampler and seed on one split of LOG, and rank them.

    Writes results.csv, .json, .tex and .md and the page report.html.
    The same command again continues after a stop.

    [bold]vitalrank compare log.tsv --out runs/cmp --samplers uni,vins[/]
    """
    from vitalrank import comparing
    from vitalrank.cli.choices import read_log, save_config
    from vitalrank.cli.methods import choices
    from vitalrank.report.page import check_page, write_report

    config = TrainConfig(**options.training_of(ctx))
    json, force = ctx.params["json"], ctx.params["force"]
    chosen = choices(samplers, models, typed_and_filed(ctx, "settings"), baselines)
    comparing.check_tables(out, inputs_of(ctx), force)
    check_page(out / "report.html", inputs_of(ctx), force)
    save_config(ctx, {**_typed(ctx), "set": chosen.table()})
    with nullcontext() if json else _reporter(config.epochs) as callback:
        results = comparing.compare(
            read_log(log, ctx), chosen.samplers, chosen.makers, seeds=seeds, baselines=chosen.baselines,
            tune=tune, config=config, settings=chosen.training, fixed=options.training_of(ctx, given=True),
            test=ctx.params["test"], valid=ctx.params["valid"], out=out, keep_models=keep_models, callback=callback,
        )  # fmt: skip
    results = replace(results, metadata={**results.metadata, "file": log.name})
    comparing.write_tables(results, out, force=force)
    page = write_report(results, out / "report.html", title=f"{log.name}: samplers compared", force=force)
    _print(results, page, out, json)


def _typed(ctx: typer.Context) -> dict[str, Any]:
    """The options as they stand, without training settings that nobody gave: a model may have its own for those."""
    unset = {name for name in options.FIELDS if not taking.is_given(ctx, name)}
    names = option_names(ctx)
    return {key: value for key, value in in_force(ctx).items() if names[key] not in unset}


@contextmanager
def _reporter(epochs: int) -> Iterator[RunCallback]:
    """The current run on a terminal, a line per finished one."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from vitalrank.comparing import Outcome

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")

        def report(method: Method, seed: int, news: Record | Outcome | Tuned) -> None:
            name = f"{method.label}, seed {seed}"
            if isinstance(news, dict):
                bar.update(task, description=f"{name}, epoch {news['epoch']} of {epochs}")
            elif isinstance(news, Outcome):
                console.print(f"{name}: {news.seconds:.1f} s", highlight=False, markup=False)
            else:
                found = f"{news.metric} {news.value:.4f} on valid, the best of {len(news.trials)} trials"
                console.print(f"{method.label}: {found}", highlight=False, markup=False)

        yield report


def _print(results: Results, page: Path, out: Path, json: bool) -> None:
    from rich.console import Console

    from vitalrank.comparing.tables import cells, flat, notes
    from vitalrank.report.page import summary_sentence

    if json:
        ranking = [flat(row) for row in results.rows]
        print_json({"out": str(out), "report": str(page), "metric": results.metric, "ranking": ranking})
        return
    header, *rows = cells(results, narrow=True)
    console = Console()
    console.print(ranking_table(header, rows))
    for sentence in notes(results):
        console.print(sentence, style="dim", highlight=False, soft_wrap=True)
    console.print(f"\n{printable(summary_sentence(results))}", highlight=False, markup=False)
    typer.echo(f"Tables and page: {printable(page)}")
