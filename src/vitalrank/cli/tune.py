"""``tune``: search for the settings that do best on valid, and write them as a config file for ``fit``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vitalrank.cli import completion, options, taking
from vitalrank.cli.config import in_force, to_toml, typed_and_filed
from vitalrank.cli.output import print_json
from vitalrank.config import TrainConfig

if TYPE_CHECKING:
    from vitalrank.history import Record
    from vitalrank.samplers import Sampler
    from vitalrank.tuning import Trial, Tuned
    from vitalrank.tuning.spaces import Dimension

_EARLIER = {"best.toml": "# ", "trials.csv": "number,state,value,"}  # how the outputs of version 0.1 begin
_search = partial(typer.Option, rich_help_panel="The search")


@taking.takes(options.READING, options.SPLIT, options.TRAINING, options.FILES)
def tune(
    ctx: typer.Context,
    log: options.Log,
    out: Annotated[Path, typer.Option(help="Folder for best.toml, trials.csv and the study.")],
    model: options.TunableModel = "mf",
    sampler: options.SamplerName = None,
    settings: options.Settings = None,
    seed: Annotated[int, typer.Option(help="Random seed of the search and of each training run.")] = TrainConfig.seed,
    trials: Annotated[
        int, _search(help="Number of trials of the whole study, including those of earlier and other processes.")
    ] = 40,
    ranges: Annotated[
        list[str] | None,
        _search(
            "--range",
            metavar="NAME=RANGE",
            help="What to search: beta=0..1, reg=1e-4..0.2:log, dim=16,32,64; repeatable. With --space it adds to it.",
        ),
    ] = None,
    space: Annotated[
        str | None,
        _search(
            help="wide (ranges around the defaults) or paper (the paper's grid); both contain the defaults.",
            show_default="wide, or only the ranges given",
            autocompletion=completion.among(("paper", "wide")),
        ),
    ] = None,
    method: Annotated[
        str,
        _search(
            help="tpe, random, grid, or rounds (the search of the paper's study).",
            autocompletion=completion.among(("tpe", "random", "grid", "rounds")),
        ),
    ] = "tpe",
    finalists: Annotated[int, _search(help="Number of best settings that the run-off trains again.")] = 4,
    runoff_seeds: Annotated[int, _search(help="Number of other seeds in the run-off; 0 for none.")] = 0,
    pruner: Annotated[
        str,
        _search(
            help="How to stop bad trials early: median, halving or none.",
            autocompletion=completion.among(("median", "halving", "none")),
        ),
    ] = "median",
    storage: Annotated[
        str | None,
        _search(
            help="Database of the study, such as sqlite:///study.db; processes that share it search together.",
            show_default="study.db in --out",
        ),
    ] = None,
    study: Annotated[str | None, _search(help="Name of the study.", show_default="MODEL-SAMPLER")] = None,
    workers: Annotated[int, _search(help="Trials to run in parallel in this process.")] = 1,
) -> None:
    """Search for the settings of a model and a sampler that do best on valid; test is not read.

    Prints the winner as a config file, also kept as best.toml in --out.
    The same command again resumes a search that was stopped.
    What is typed (--reg 0.01, --set dim=32) is fixed and not searched.

    [bold]vitalrank tune log.tsv --out runs/t --sampler vins[/]
    [bold]vitalrank tune log.tsv --out runs/t --range beta=0..1 --range dim=16,32[/]
    [bold]vitalrank fit log.tsv --out runs/a --config runs/t/best.toml[/]
    """
    from vitalrank._util.outputs import adopt, check_outputs, write_recorded
    from vitalrank.cli.choices import fit_file, save_config
    from vitalrank.cli.splits import read_parts
    from vitalrank.errors import SettingError
    from vitalrank.tuning import tune as search

    force = ctx.params["force"]
    if (out / "study.db").is_file():
        adopt(out, _EARLIER)
    check_outputs([out / "best.toml", out / "trials.csv"], taking.inputs_of(ctx), force)
    fixed = typed_and_filed(ctx, "settings")
    make, chosen = _parts(ctx, model, sampler, fixed)
    searched = _space(ctx, make, chosen, fixed)
    save_config(ctx, _own_file(ctx, fixed, searched))
    parts = read_parts(log, ctx)
    if "valid" not in parts.held_out:
        raise SettingError("tune measures on the validation set; give a --valid share above 0.")
    config = TrainConfig(**options.training_of(ctx))
    with _reporter(trials, quiet=ctx.params["json"]) as report:
        tuned = search(
            parts.train, parts.held_out["valid"], make, chosen, space=searched, trials=trials, seed=seed,
            config=config, fixed=options.training_of(ctx, given=True), storage=storage or out / "study.db", study=study,
            workers=workers, pruner=pruner, method=method, finalists=finalists, runoff_seeds=runoff_seeds,
            callback=report,
        )  # fmt: skip
    own = {**options.READING, **options.SPLIT}
    reading = {key: value for key, value in in_force(ctx).items() if key.replace("-", "_") in own}
    best = fit_file(reading, model, tuned.make_model(), tuned.make_sampler(), vars(tuned.config))
    comments = [_sentence(tuned), f"vitalrank fit {log} --config {out / 'best.toml'} --out FOLDER"]
    text = to_toml(best, comments)
    write_recorded(out / "best.toml", text, force)
    write_recorded(out / "trials.csv", tuned.to_csv(), force)
    _print(tuned, out, text, ctx.params["json"])


def _parts(
    ctx: typer.Context, model: str, sampler: str | None, fixed: list[str]
) -> tuple[Callable[..., Any], Sampler | None]:
    """What makes the model, and the sampler if one is named or set: with the settings that are fixed."""
    from vitalrank.cli.choices import model_kind, sampler_for, settings_of, split_settings

    kind = model_kind(model)
    shape, rest = split_settings(fixed, kind)
    make = partial(kind, **settings_of(kind, model, shape))
    chosen = sampler_for(make(), sampler, rest, options.training_of(ctx, given=True)) if sampler or rest else None
    return make, chosen


def _space(
    ctx: typer.Context, make: Callable[..., Any], chosen: Sampler | None, fixed: list[str]
) -> dict[str, Dimension]:
    """The ranges that were given, or a named space without what is fixed, or both.

    A study that is resumed keeps its space where a named one has been widened since.
    """
    from vitalrank.cli.choices import pairs
    from vitalrank.errors import SettingError
    from vitalrank.tuning.plans import as_recorded, space_of, study_name
    from vitalrank.tuning.spaces import parse_dimension
    from vitalrank.tuning.studies import recorded_space

    ranges = pairs(typed_and_filed(ctx, "ranges"), "--range", "beta=0..1")
    typed = {*pairs(fixed, "--set", "beta=0.5"), *(name for name in options.FIELDS if taking.is_given(ctx, name))}
    for name in ranges:
        if name in typed:
            raise SettingError(f"{name} is both fixed and searched; leave out one of the two.")
    own = {name: parse_dimension(text) for name, text in ranges.items()}
    if ranges and ctx.params["space"] is None:
        return own
    config = TrainConfig(**options.training_of(ctx))
    named = space_of(ctx.params["space"] or "wide", make, chosen, config, fixed=options.training_of(ctx, given=True))
    storage = ctx.params["storage"] or ctx.params["out"] / "study.db"
    recorded = recorded_space(storage, ctx.params["study"] or study_name(make, chosen, config))
    free = {name: one for name, one in named.items() if name not in typed and name not in own}
    kept = as_recorded(free, {name: text for name, text in recorded.items() if name not in own})
    return {**kept, **own}


def _own_file(ctx: typer.Context, fixed: list[str], searched: Mapping[str, Dimension]) -> dict[str, Any]:
    """The settings of the search itself, for ``tune --config``: a training option that stands there is fixed."""
    from vitalrank.cli.choices import pairs
    from vitalrank.tuning.spaces import parse_value

    flat = {key: value for key, value in in_force(ctx).items() if key.replace("-", "_") not in {*searched, "space"}}
    table = {key: parse_value(text) for key, text in pairs(fixed, "--set", "beta=0.5").items()}
    return {**flat, "set": table, "range": {name: str(dimension) for name, dimension in searched.items()}}


@contextmanager
def _reporter(trials: int, quiet: bool) -> Iterator[Callable[[int, Record | Trial], None] | None]:
    """A bar over the trials on a terminal, nothing in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from vitalrank.tuning import Trial

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    best = -1.0
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=trials)

        def report(number: int, news: Record | Trial) -> None:
            nonlocal best
            if isinstance(news, Trial):
                best = max(best, news.value or -1.0)
                bar.update(task, completed=number + 1)
                console.print(_line(news), highlight=False, soft_wrap=True)
            else:
                so_far = "" if best < 0 else f", best so far {best:.4f}"
                bar.update(task, description=f"trial {number}, epoch {news['epoch']}{so_far}")

        yield report


def _line(trial: Trial) -> str:
    parts = (trial.settings.model, trial.settings.sampler, trial.settings.training)
    settings = " ".join(f"{name}={_short(value)}" for part in parts for name, value in part.items())
    value = "" if trial.value is None else f" {trial.value:.4f}"
    return f"{trial.number:>4} {trial.state:<8}{value}  {settings}"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _sentence(tuned: Tuned) -> str:
    states = Counter(trial.state for trial in tuned.trials)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    epoch = "" if tuned.epoch is None else f" after epoch {tuned.epoch}"
    trials = f"{len(tuned.trials)} trials ({counts})"
    best = f"the best of {trials}"
    if tuned.finalists:
        seeds, count = len(tuned.finalists[0].values), len(tuned.finalists)
        best = f"the mean over {seeds} other seeds of the best of {count} finalists; {trials}"
    return f"{tuned.metric} {tuned.value:.4f} on valid{epoch}, {best}"


def _print(tuned: Tuned, out: Path, best: str, json: bool) -> None:
    from dataclasses import asdict

    if json:
        found = {"metric": tuned.metric, "value": tuned.value, "epoch": tuned.epoch, **asdict(tuned.settings)}
        print_json({"out": str(out), "best": str(out / "best.toml"), "trials": len(tuned.trials), **found})
        return
    print(best, end="")  # TOML and nothing else, so that it can go into a file
