"""``best``: the best model for a log within a time budget, trained on all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from vitalrank._util.display import printable
from vitalrank.cli import completion, options, taking
from vitalrank.cli.config import in_force
from vitalrank.cli.output import print_json, ranking_table
from vitalrank.cli.taking import inputs_of
from vitalrank.config import TrainConfig

if TYPE_CHECKING:
    from rich.table import Table

    from vitalrank.history import Record
    from vitalrank.selection import Best, RankedModel
    from vitalrank.tuning import Trial

TRAINING = {name: options.TRAINING[name] for name in ("epochs", "metric", "threads", "device")}


@taking.takes(options.READING, TRAINING, options.FILES)
def best(
    ctx: typer.Context,
    log: options.Log,
    out: Annotated[Path, typer.Option(help="Folder for the model, the page, the tables and the study.")],
    minutes: Annotated[
        float, typer.Option(help="Wall time of the whole search; more minutes continue an earlier one.")
    ] = 30.0,
    models: Annotated[
        str | None,
        completion.several(
            options.MODELS,
            show_default="mostpopular,itemknn,ease,als,mf, and lightgcn,sasrec where time and torch allow",
        ),
    ] = None,
    samplers: Annotated[str, completion.several(options.SAMPLERS)] = "vins,uni,pop,dns,lfm-w",
    seed: Annotated[int, typer.Option(help="Random seed of the search and of training.")] = TrainConfig.seed,
    storage: Annotated[
        str | None,
        typer.Option(
            help="Database of the study; other processes that name it join in.", show_default="study.db in --out"
        ),
    ] = None,
) -> None:
    """Find the best model for LOG within a time budget, and train it on all of LOG.

    Models, samplers and settings are searched together on valid, defaults first.
    The best of each are measured once on test, with paired tests.
    The same command again continues after a stop, or joins a running search.

    [bold]vitalrank best log.tsv --minutes 30 --out runs/best[/]
    """
    from vitalrank._util.outputs import check_outputs, write_recorded
    from vitalrank.cli.choices import fit_file, read_log, save_config
    from vitalrank.cli.config import to_toml
    from vitalrank.cli.methods import names_of
    from vitalrank.selection import best as search

    json, force = ctx.params["json"], ctx.params["force"]
    check_outputs([out / "best.toml"], inputs_of(ctx), force)
    save_config(ctx, in_force(ctx))
    with nullcontext() if json else _reporter(minutes) as callback:
        found = search(
            read_log(log, ctx), minutes=minutes, out=out, samplers=names_of(samplers),
            models=None if models is None else names_of(models),
            config=TrainConfig(**options.training_of(ctx)), fixed=options.training_of(ctx, given=True),
            test=ctx.params["test"], valid=ctx.params["valid"], seed=seed, storage=storage, callback=callback,
            force=force,
        )  # fmt: skip
    reading = {key: value for key, value in in_force(ctx).items() if key.replace("-", "_") in options.READING}
    name = type(found.model).__name__.lower()
    table = fit_file({**reading, "test": 0.0, "valid": 0.0}, name, found.model, found.sampler, found.training)
    write_recorded(out / "best.toml", to_toml(table, [printable(found.verdict)]), force)
    commands = _commands(found, log, out)
    if json:
        print_json({"out": str(out), "report": str(out / "report.html"), "next": commands, **found.to_dict()})
        return
    _print(found, out, commands)


def _commands(found: Best, log: Path, out: Path) -> list[str]:
    """What to go on with: lists, the new day's log, a look at the model."""
    user = str(found.model.train.user_ids[0])
    config = quote(str(out / "best.toml"))
    return [
        f"vitalrank recommend {quote(str(out))} --user {quote(user)}",
        f"vitalrank similar {quote(str(out))} --item {quote(str(found.model.train.item_ids[0]))}",
        f"vitalrank fit {quote(str(log))} --config {config} --out {quote(str(out) + '-next')}",
    ]


# ------------------------------------------------------------------------------------------------------- on the way


@dataclass
class _Standings:
    """What each candidate has reached so far."""

    values: dict[str, float] = field(default_factory=dict)
    trials: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    now: str = "starting"
    minutes: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def take(self, label: str, trial: Trial) -> None:
        """Add a finished trial."""
        self.now = f"after {label}"
        self.trials[label] = self.trials.get(label, 0) + 1
        self.seconds[label] = self.seconds.get(label, 0.0) + trial.seconds
        if trial.value is not None and trial.state != "pruned":
            self.values[label] = max(trial.value, self.values.get(label, -1.0))

    def table(self) -> Table:
        """The candidates by value, as a table of rich."""
        passed = int(time.monotonic() - self.began)
        caption = f"{passed // 60}:{passed % 60:02} of {self.minutes:g} minutes, {self.now}"
        rows = []
        for label in sorted(self.trials, key=lambda one: -self.values.get(one, -1.0)):
            value = f"{self.values[label]:.4f}" if label in self.values else ""
            rows.append([label, value, str(self.trials[label]), f"{self.seconds[label]:.0f}"])
        return ranking_table(("candidate", "on valid", "trials", "seconds"), rows, caption)


@contextmanager
def _reporter(minutes: float) -> Iterator[Callable[[str, Record | Trial], None]]:
    """A live table on a terminal, a line for each finished trial in a pipe."""
    from rich.console import Console
    from rich.live import Live

    console, standings = Console(stderr=True), _Standings(minutes=minutes)
    if not console.is_terminal:

        def line(label: str, news: Record | Trial) -> None:
            if not isinstance(news, dict):
                value = "" if news.value is None else f" {news.value:.4f}"
                print(f"{label}: {news.state}{value}, {news.seconds:.1f} s", file=console.file, flush=True)

        yield line
        return
    with Live(get_renderable=standings.table, console=console, transient=True, refresh_per_second=2):

        def show(label: str, news: Record | Trial) -> None:
            if isinstance(news, dict):
                standings.now = f"{label}, epoch {news['epoch']}"
            else:
                standings.take(label, news)

        yield show


# -------------------------------------------------------------------------------------------------------- at the end


def _print(found: Best, out: Path, commands: list[str]) -> None:
    from rich.console import Console

    console = Console()
    header = ("", f"{found.metric} on valid", "on test", "p", "trials")
    console.print(ranking_table(header, map(_cells, found.ranking)))
    console.print("p: against the winner, paired t-test over the test users, Holm's method.", style="dim")
    for why in dict.fromkeys(found.left_out.values()):
        labels = ", ".join(label for label, reason in found.left_out.items() if reason == why)
        console.print(f"{labels} did not compete: {why}.", style="dim", highlight=False, soft_wrap=True)
    print(f"\n{printable(found.verdict)}")
    print(f"{printable(found.model)} is trained on all {len(found.model.train):,} interactions, in {printable(out)}.")
    print(f"Page: {printable(out / 'report.html')}\nNext:")
    for command in commands:
        print(f"  {printable(command)}")


def _cells(entry: RankedModel) -> list[str]:
    test = "" if entry.test is None else f"{entry.test:.4f}"
    p_value = "" if entry.p_value is None else f"{entry.p_value:.2g}{' tie' if entry.is_tie else ''}"
    return [entry.label, "" if entry.value is None else f"{entry.value:.4f}", test, p_value, str(entry.trials)]
