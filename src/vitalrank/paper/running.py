"""From names to files: run what is missing, collect the data, write data, tables, figures and the page."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

from vitalrank._util.files import write_text
from vitalrank.comparing.planning import environment
from vitalrank.errors import StorageError
from vitalrank.paper.earlier import earlier_note, fill_in
from vitalrank.paper.experiment import Data, Experiment, nothing
from vitalrank.paper.logs import filtered
from vitalrank.paper.methods import METHODS
from vitalrank.paper.page import write_page
from vitalrank.paper.registry import EXPERIMENTS
from vitalrank.paper.settings import MACHINE
from vitalrank.paper.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PIXELS = {"figure3"}  # too many points for a drawing of lines
_PARTS = {"title": str, "logs": dict, "facts": dict}  # of an experiment's data
_FACTS = {"command", "settings", "contenders", "logs", "versions", "machine"}
_SETTINGS = {"protocol", "seeds", "trials", "epochs"}  # the page asks for them


class Report(NamedTuple):
    """What a study wrote, and whether all of its runs are done."""

    files: list[Path]
    is_finished: bool


def run_paper(
    experiments: Sequence[Experiment], study: Study, out: Path, command: str = "", earlier: Path | None = None
) -> Report:
    """Run experiments and write them to a folder, with a page on every claim of the paper that they bear on.

    Parameters
    ----------
    experiments
        What to run; their runs are shared, and all of them run at once.
    study
        The study.
    out
        The folder; results of other experiments there are kept and appear on the page.
    command
        What a reader would type to repeat it.
    earlier
        A folder of an earlier study: rows that this one lacks are taken from it, and marked.

    Returns
    -------
    Report
        What was written; unfinished if time ran out or a run failed.
    """
    past = {} if earlier is None else _read_past(earlier)
    tasks = [task for experiment in experiments for task in experiment.plan(study)]
    for folder in (out, study.store.folder) if tasks else (out,):
        _check_writable(folder)
    read_all(out, but=[experiment.name for experiment in experiments])
    share = 1.0 if all(experiment.timed is nothing for experiment in experiments) else 1.0 - study.settings.timed_share
    all_run = study.run_tasks(tasks, share)
    all_timed = study.run_timed([task for experiment in experiments for task in experiment.timed(study)])
    facts = facts_of(study, command)
    written = []
    for experiment in experiments:
        data = {"experiment": experiment.name, "title": experiment.title, **experiment.collect(study), "facts": facts}
        filled = fill_in(data, past[experiment.name]) if experiment.name in past else data
        written += write_experiment(experiment, filled, out)
    return Report([*written, write_page(read_all(out), out / "index.md")], all_run and all_timed)


def facts_of(study: Study, command: str) -> Data:
    """What it takes to repeat the study; nothing that names a machine or a place on it."""
    settings = {name: value for name, value in asdict(study.settings).items() if name not in MACHINE}
    logs: dict[str, Any] = {}
    for source in study.sources:
        logs[source.name] = {**source.identity(), "interactions": len(filtered(source))}
    around = environment(*(("torch",) if study.settings.device != "cpu" else ()))
    if study.settings.device != "cpu":
        import torch

        around["machine"]["gpu"] = torch.cuda.get_device_name()
    taken = {
        source.name: [c.name for c in study.chosen if (source.name, c.name) in study.known] for source in study.sources
    }
    return {
        "command": command,
        "settings": settings,
        "contenders": [name for name in METHODS if name in study.methods],
        "searched": not any(taken.values()),
        "taken": taken,  # whose settings are an earlier study's
        "logs": logs,
        **around,
    }


def write_experiment(experiment: Experiment, data: Data, out: Path) -> list[Path]:
    """Data, table and figure of one experiment."""
    table, raw = (out / f"{experiment.name}.{kind}" for kind in ("md", "json"))
    written = [table, raw]
    drawn = _picture(experiment, data)
    if experiment.draw is not None and drawn is not None:
        written.append(_save(experiment.draw(data), out / drawn))
    write_text(table, page_of(experiment, data))
    write_text(raw, json.dumps(data, indent=1))
    return written


def page_of(experiment: Experiment, data: Data) -> str:
    """An experiment's page: its picture, its tables, and what made them."""
    drawn = _picture(experiment, data)
    shown = "" if drawn is None else f"![{experiment.title}]({drawn})"
    parts = [f"# {experiment.title}", shown, experiment.markdown(data), earlier_note(data), _footer(data)]
    return "\n\n".join(part for part in parts if part)


def _picture(experiment: Experiment, data: Data) -> str | None:
    """The file of its picture, if it has one."""
    if experiment.draw is None or not any(data["logs"].values()):
        return None
    return f"{experiment.name}.{'png' if experiment.name in _PIXELS else 'svg'}"


def _save(figure: Figure, path: Path) -> Path:
    import matplotlib

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Fixed ids and no date: the same data give the same file.
        with matplotlib.rc_context({"svg.hashsalt": path.stem}):
            dateless = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, dpi=110, metadata=dateless)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error}); choose another folder.") from error
    return path


def _footer(data: Data) -> str:
    facts = data["facts"]
    settings = ", ".join(f"{name} {value}" for name, value in facts["settings"].items())
    versions = ", ".join(f"{name} {value}" for name, value in facts["versions"].items())
    machine = ", ".join(f"{name} {value}" for name, value in facts["machine"].items())
    return f"`{facts['command']}`\n\nSettings: {settings}.\nVersions: {versions}; {machine}.\n"


def _read_past(folder: Path) -> dict[str, Data]:
    past = read_all(folder)
    if not past:
        raise StorageError(f"{folder}: no data of an earlier study; give the folder with its table2.json and others.")
    return past


def _check_writable(folder: Path) -> None:
    """Before hours of training, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error}); choose another folder.") from error


def read_all(out: Path, but: Collection[str] = ()) -> dict[str, Data]:
    """The data of every experiment in a folder, by name; ``but`` those that are made anew."""
    places = {name: out / f"{name}.json" for name in EXPERIMENTS if name not in but}
    return {name: _read_data(name, place) for name, place in places.items() if place.is_file()}


def _read_data(name: str, place: Path) -> Data:
    try:
        return _checked(json.loads(place.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StorageError(f"{place}: not the data of {name} ({error}); remove it and run {name} again.") from error


def _checked(data: object) -> Data:
    """The data of a file, which may hold anything."""
    if not isinstance(data, dict):
        raise ValueError("it is no object")
    for part, kind in _PARTS.items():
        if not isinstance(data.get(part), kind):
            raise ValueError(f"it has no {part}")
    facts = data["facts"]
    if lacks := _FACTS - facts.keys() or _SETTINGS - set(facts["settings"] or ()):
        raise ValueError(f"its facts have no {', '.join(sorted(lacks))}")
    return data
