"""``paper``: the tables and figures of the VINS paper on logs of your own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vitalrank._util.display import printable
from vitalrank.cli import completion, options
from vitalrank.cli.output import print_json

if TYPE_CHECKING:
    from vitalrank.paper.jobs import Result, StudyJob
    from vitalrank.paper.settings import StudySettings


def paper(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="table1 figure2 figure3 figure4 table2 table3 table4 table5 figure5 to figure9, variations or all.",
            autocompletion=completion.among(completion.experiment_names),
        ),
    ],
    data: Annotated[
        list[Path],
        typer.Option(
            metavar="LOG",
            help="A log, or a name that data list shows; repeatable.",
            autocompletion=completion.among(completion.dataset_names),
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for data, tables, figures and the page.")] = Path("runs/paper"),
    work: Annotated[
        Path | None, typer.Option(help="Folder of finished runs, shared by all experiments.", show_default="OUT/units")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller study of a few minutes; too small to draw conclusions.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="Seeds of each method.", show_default="5")] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of the search for each method.", show_default="12")] = None,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs.", show_default="120")] = None,
    patience: options.Patience = None,
    valid_every: Annotated[
        int | None, typer.Option(help="Epochs between evaluations on valid.", show_default="5")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="valid, or paper: settings and epoch picked on test, as the paper does.")
    ] = "valid",
    methods: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated, such as uni,dns,lfm-w,vins.",
            show_default="all",
            autocompletion=completion.among(completion.method_names),
        ),
    ] = None,
    tuned: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE2.JSON", help="Use the settings found there; search only for methods that are not in it."
        ),
    ] = None,
    earlier: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Fill in missing rows from an earlier study; they are marked.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SETTING=VALUE", help="A setting of the study: dim=32, model_trials=2, ...; repeatable."
        ),
    ] = None,
    min_user: Annotated[
        int | None, typer.Option(help="Minimum interactions of a user.", show_default="by the log's name")
    ] = None,
    min_item: Annotated[
        int | None, typer.Option(help="Minimum interactions of an item.", show_default="by the log's name")
    ] = None,
    workers: Annotated[int, typer.Option(help="Runs in parallel.")] = 1,
    timed_workers: Annotated[int, typer.Option(help="Runs in parallel while time is measured.")] = 1,
    budget_seconds: Annotated[float | None, typer.Option(help="Start no new run after this many seconds.")] = None,
    run_seconds: Annotated[float | None, typer.Option(help="Maximum training time of one run, in seconds.")] = None,
    device: options.Device = "cpu",
    contenders: Annotated[str | None, typer.Option(hidden=True)] = None,
    json: options.Json = False,
) -> None:
    """Reproduce a table or figure of the paper, or all, on these logs.

    Every method is tuned with the same number of trials, then run with several seeds. The same command again
    resumes a study that was stopped.
    """
    from vitalrank.paper.known import known_for
    from vitalrank.paper.logs import Source
    from vitalrank.paper.registry import find_experiments
    from vitalrank.paper.running import run_paper
    from vitalrank.paper.store import Store
    from vitalrank.paper.study import Study

    given = {
        "seeds": seeds, "trials": trials, "epochs": epochs, "patience": patience, "valid_every": valid_every,
        "protocol": protocol, "workers": workers, "timed_workers": timed_workers, "budget_seconds": budget_seconds,
        "run_seconds": run_seconds, "device": device,
    }  # fmt: skip
    _refuse_more(ctx.args)
    if contenders is not None:
        typer.echo("warning: --contenders is now --methods.", err=True)
        methods = contenders if methods is None else methods
    names = _methods(methods)
    experiments = find_experiments(name, names if earlier is None else None)  # an earlier study may have who lacks
    sources = [replace(Source.of(path, min_user, min_item), path=str(_file(path))) for path in data]
    study_settings = _study(quick, {key: value for key, value in given.items() if value is not None}, settings or [])
    known = {} if tuned is None else known_for(tuned, [source.name for source in sources], names)
    callback = None if json else _reporter()
    study = Study(sources, study_settings, Store(work or out / "units"), names, callback, known)
    chosen = {"min_user": min_user, "min_item": min_item, "methods": methods, "tuned": tuned, "earlier": earlier}
    command = _command(name, data, chosen, quick, study_settings)
    files, is_finished = run_paper(experiments, study, out, command, earlier)
    if json:
        print_json({"out": str(out), "files": [path.name for path in files], "finished": is_finished})
    else:
        typer.echo(printable(f"{len(files)} files in {out}; start with {out / 'index.md'}."))
    if not is_finished:
        typer.echo("Not finished: time ran out or a run failed. The same command again resumes.", err=True)


def _refuse_more(words: list[str]) -> None:
    """A second log behind --data is the likely mistake."""
    from vitalrank.errors import SettingError

    if words:
        more = " ".join(f"--data {word}" for word in words)
        raise SettingError(f"unexpected {' '.join(words)}; each log has a --data of its own: {more}.")


def _file(place: Path) -> Path:
    """The file of a log, or of a known data set by its name, checked before anything is planned."""
    from vitalrank import datasets
    from vitalrank.errors import SettingError
    from vitalrank.readers.sources import check_file

    known = {dataset.name: dataset for dataset in datasets.catalogue()}.get(str(place))
    if known is None or place.exists():
        check_file(place)
        return place
    if known.options:  # a study reads a file as it is recognised
        ready = f"{known.name}.parquet"
        raise SettingError(
            f"--data {known.name}: first run vitalrank data prepare {known.name} {ready}, then give --data {ready}."
        )
    return datasets.get(known.name)


def _study(quick: bool, given: dict[str, Any], written: list[str]) -> StudySettings:
    from inspect import signature

    from vitalrank._util.devices import resolve
    from vitalrank.cli.choices import make
    from vitalrank.paper.settings import StudySettings

    whole = StudySettings.quick(**given) if quick else StudySettings(**given)

    def changed(**changes: Any) -> StudySettings:
        return replace(whole, **changes)

    changed.__signature__ = signature(StudySettings)  # type: ignore[attr-defined]
    study_settings: StudySettings = make(changed, "a study", written)
    measured = None if study_settings.measured_on is None else resolve(study_settings.measured_on)
    return replace(study_settings, device=resolve(study_settings.device), measured_on=measured)


def _methods(names: str | None) -> tuple[str, ...]:
    from vitalrank.cli.methods import names_of
    from vitalrank.errors import SettingError
    from vitalrank.paper.methods import METHODS

    if names is None:
        return tuple(METHODS)
    chosen = tuple(names_of(names))
    if not chosen:
        raise SettingError(f"--methods {names!r}: no name in it; choose from {', '.join(METHODS)}.")
    for name in chosen:
        if name not in METHODS:
            raise SettingError(f"unknown method {name!r}; choose from {', '.join(METHODS)}.")
    return chosen


def _command(name: str, data: list[Path], chosen: dict[str, Any], quick: bool, study_settings: StudySettings) -> str:
    """What repeats the study, without places on this machine or its size."""
    from dataclasses import asdict

    from vitalrank.paper.settings import MACHINE, StudySettings

    usual = asdict(StudySettings.quick() if quick else StudySettings())
    changed = {
        key: value for key, value in asdict(study_settings).items() if key not in MACHINE and value != usual[key]
    }
    parts = [f"vitalrank paper {name}", *(f"--data {path.name}" for path in data), *(["--quick"] if quick else [])]
    given = {key: getattr(value, "name", value) for key, value in chosen.items() if value is not None}
    return " ".join([*parts, *(_written(key, value) for key, value in {**given, **changed}.items())])


def _written(key: str, value: object) -> str:
    """A setting of the study as it is typed: most have no option of their own."""
    from inspect import signature

    return f"--{key.replace('_', '-')} {value}" if key in signature(paper).parameters else f"--set {key}={value}"


def _reporter() -> Callable[[StudyJob, Result, int], None]:
    """A line on stderr for each finished run."""
    from rich.console import Console

    console = Console(stderr=True)

    def callback(job: StudyJob, result: Result, waiting: int) -> None:
        value = result.get("value")
        outcome = result.get("error") or ("" if value is None else f"{value:.4f} on valid")
        name = f"{job.source.name}, {job.method.label}, {job.kind}, seed {job.seed}"
        console.print(f"{name}: {outcome} ({waiting} waiting)", highlight=False, soft_wrap=True)

    return callback
