"""From names to files: run what is missing, collect the data, write data, tables, figures and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from vitalrank.comparing.outcomes import write_text
from vitalrank.comparing.planning import surroundings
from vitalrank.errors import StorageError
from vitalrank.paper.contenders import CONTENDERS
from vitalrank.paper.experiment import Data, Experiment, nothing
from vitalrank.paper.lab import Lab
from vitalrank.paper.logs import filtered
from vitalrank.paper.page import write_page
from vitalrank.paper.registry import EXPERIMENTS
from vitalrank.paper.settings import MACHINE

_PIXELS = {"figure3"}  # too many points for a drawing of lines


class Report(NamedTuple):
    """What a study wrote, and whether all of its runs are done."""

    files: list[Path]
    is_finished: bool


def run_paper(experiments: Sequence[Experiment], lab: Lab, out: Path, command: str = "") -> Report:
    """Run experiments and write them to a folder, with a page on every claim of the paper that they bear on.

    Parameters
    ----------
    experiments
        What to run; their runs are shared, and all of them are under way at once.
    lab
        The study.
    out
        The folder; what other experiments left there stays and is told of on the page.
    command
        What a reader would type to repeat it.

    Returns
    -------
    Report
        What was written; unfinished if time ran out or a run failed.
    """
    share = 1.0 if all(experiment.timed is nothing for experiment in experiments) else 1.0 - lab.settings.timed_share
    all_run = lab.achieve([goal for experiment in experiments for goal in experiment.plan(lab)], share)
    all_timed = lab.achieve_timed([goal for experiment in experiments for goal in experiment.timed(lab)])
    facts = facts_of(lab, command)
    written = []
    for experiment in experiments:
        data = {"experiment": experiment.name, "title": experiment.title, **experiment.collect(lab), "facts": facts}
        written += write_experiment(experiment, data, out)
    return Report([*written, write_page(read_all(out), out / "index.md")], all_run and all_timed)


def facts_of(lab: Lab, command: str) -> Data:
    """What it takes to repeat the study; nothing that names a machine or a place on it."""
    settings = {name: value for name, value in asdict(lab.settings).items() if name not in MACHINE}
    logs: dict[str, Any] = {}
    for source in lab.sources:
        logs[source.name] = {**source.identity(), "interactions": len(filtered(source))}
    around = surroundings(*(("torch",) if lab.settings.device != "cpu" else ()))
    if lab.settings.device != "cpu":
        import torch

        around["machine"]["gpu"] = torch.cuda.get_device_name()
    return {
        "command": command,
        "settings": settings,
        "contenders": [name for name in CONTENDERS if name in lab.contenders],
        "searched": not lab.known,
        "logs": logs,
        **around,
    }


def write_experiment(experiment: Experiment, data: Data, out: Path) -> list[Path]:
    """Data, table and figure of one experiment."""
    place = out / experiment.name
    table, raw = place.with_suffix(".md"), place.with_suffix(".json")
    picture = _write_figure(experiment, data, place)
    shown = "" if picture is None else f"![{experiment.title}]({picture.name})\n\n"
    text = f"# {experiment.title}\n\n{shown}{experiment.markdown(data)}\n\n{_footer(data)}"
    write_text(table, text)
    write_text(raw, json.dumps(data, indent=1))
    return [table, raw, *([] if picture is None else [picture])]


def _write_figure(experiment: Experiment, data: Data, place: Path) -> Path | None:
    if experiment.draw is None or not any(data["logs"].values()):
        return None
    path = place.with_suffix(".png" if experiment.name in _PIXELS else ".svg")
    import matplotlib

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Fixed ids and no date: the same data give the same file.
        with matplotlib.rc_context({"svg.hashsalt": experiment.name}):
            dateless = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            experiment.draw(data).savefig(path, dpi=110, metadata=dateless)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error}); choose another folder.") from error
    return path


def _footer(data: Data) -> str:
    facts = data["facts"]
    settings = ", ".join(f"{name} {value}" for name, value in facts["settings"].items())
    versions = ", ".join(f"{name} {value}" for name, value in facts["versions"].items())
    machine = ", ".join(f"{name} {value}" for name, value in facts["machine"].items())
    return f"`{facts['command']}`\n\nSettings: {settings}.\nVersions: {versions}; {machine}.\n"


def read_all(out: Path) -> dict[str, Data]:
    """The data of every experiment in a folder, by name."""
    found = {}
    for name in EXPERIMENTS:
        place = out / f"{name}.json"
        if place.is_file():
            try:
                found[name] = json.loads(place.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise StorageError(f"{place}: cannot be read ({error}); remove it and run {name} again.") from error
    return found
