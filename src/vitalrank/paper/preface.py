"""How the page begins: which logs, how large the study is, how it was done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from vitalrank.paper.experiment import Data, nothing
from vitalrank.paper.methods import METHODS
from vitalrank.paper.published import STANDS_FOR, STATISTICS
from vitalrank.paper.registry import EXPERIMENTS
from vitalrank.paper.settings import StudySettings
from vitalrank.tuning.rounds import ENOUGH, PLENTY

_INTRO = """\
# The paper, reproduced

Yu, Pei, Zhang, Liang, Bai, Chawla and Zhang, "Addressing class-imbalance problem for personalized ranking",
arXiv 2005.09272, on the logs named below.{logs}

This page is written by `vitalrank paper`; each verdict is computed from the data next to it.
"""

_OTHER_LOGS = """ **{which} not the paper's own**: a log named
like one of the paper's differs from it in size or filtering. Compare orders, ratios and signs, never absolute
values."""
_ALIKE = 0.01  # the most that observations may differ where a log is taken for the paper's

_VALID = (
    "**Split**: each user's last 20 % are the test set, the last 10 % of the rest the validation set. The paper has "
    "no validation set.",
    "**Trials**: {counts}. Half of them are spread over the method's own space, a quarter lie near the best of those, "
    "and a quarter nearer still.{more_rounds} LFM-W and VINS search their weight and buffer too.",
    "**Run-off**: the {finalists} best trials, at most half of all, are run again with {runoff_seeds} seeds each.",
    "**Final runs**: {seeds} seeds{model_seeds} with the winner, the best epoch by valid, test read once.",
    "**Length**: a run with MF or CML has at most {epochs} epochs, its learning rate is {schedule}.{cap}",
)
_MORE_ROUNDS = " Where there are {enough} or more, the last third recombines the best few instead."
_LINE_SEARCH = (
    " Where there are {plenty} or more, that is the first half; the second changes one setting of the best at a time, "
    "then recombines again."
)
_PAPER = (
    "The paper's own protocol: there is no validation set. Settings ({trials} trials) and epoch are picked on the "
    "test set, so every figure is too good, for all methods alike."
)


def introduction(results: Mapping[str, Data]) -> list[str]:
    """The paragraphs before any result."""
    return [_INTRO.format(logs=_whose_logs(results)), *_too_small(results)]


def _whose_logs(results: Mapping[str, Data]) -> str:
    """Whether the logs are the paper's; those prepared from its own files may be."""
    logs = {name: log for data in results.values() for name, log in data["facts"]["logs"].items()}
    others = [name for name, log in logs.items() if not _is_the_papers(name, log["interactions"])]
    if not others:
        return " They have the paper's names and sizes." if logs else ""
    are = "is" if len(others) == 1 else "are"
    which = "The logs here are" if len(others) == len(logs) else f"Of the logs here {', '.join(others)} {are}"
    return _OTHER_LOGS.format(which=which)


def _is_the_papers(log: str, observations: int) -> bool:
    if log not in STANDS_FOR:
        return False
    theirs = STATISTICS[STANDS_FOR[log]][2]
    return abs(observations - theirs) <= _ALIKE * theirs


def _too_small(results: Mapping[str, Data]) -> list[str]:
    """A warning where the study was no larger than with ``--quick``."""
    trained = {name: data["facts"] for name, data in results.items() if EXPERIMENTS[name].plan is not nothing}
    small = [name for name, facts in trained.items() if _is_small(facts)]
    if not small:
        return []
    which = "This study" if len(small) == len(trained) else f"Some of this study ({', '.join(small)})"
    return [f"**{which} is too small to conclude from** (`--quick`, or as few seeds, trials or epochs)."]


def _is_small(facts: Data) -> bool:
    quick, settings = vars(StudySettings.quick()), facts["settings"]
    few = [settings[name] <= quick[name] for name in ("seeds", "trials", "epochs")]
    return "--quick" in facts["command"].split() or any(few)


def protocol(results: Mapping[str, Data]) -> list[str]:
    """How the study was done, on which logs, and the command that repeats it."""
    facts = next((data["facts"] for name, data in results.items() if name == "table2"), None)
    facts = facts or next((data["facts"] for data in results.values()), None)
    if facts is None:
        return []
    settings = facts["settings"]
    logs = ", ".join(f"{name} ({log['min_user']}-core)" for name, log in facts["logs"].items())
    known = defaultdict(lambda: "?", {**settings, **_exceptions(settings)})  # older ones had fewer
    points = _VALID if settings["protocol"] == "valid" else (_PAPER,)
    lines = [point.format_map(known) for point in points]
    if not facts.get("searched", True):
        whose = _taken(facts)
        lines.append(f"**Settings that an earlier study had found were taken from it**{whose}, not searched again.")
    lines += [f"**Logs**: {logs}.", f"**Command**: `{facts['command']}`"]
    return ["## Protocol", "\n".join(f"- {line}" for line in lines)]


def _exceptions(settings: Data) -> dict[str, str]:
    """Trials of all methods, with those that have fewer; seeds of those that have other numbers of them; the cap."""
    trials, seeds, cap = settings["trials"], settings["seeds"], settings.get("run_seconds")
    costly, model = settings.get("costly_trials") or trials, settings.get("model_trials", "?")
    counts = [f"{trials} for every method"]
    counts += [f"{costly} for CML, PRIS, SA and the softmax losses"] if costly != trials else []
    counts += [f"{model} for IRGAN, FPMC and MARank"] if model != trials else []
    others = settings.get("model_seeds", "?")
    more = (_MORE_ROUNDS if trials >= ENOUGH else "") + (_LINE_SEARCH if trials >= PLENTY else "")
    return {
        "counts": counts[0] + (f", but {' and '.join(counts[1:])}" if counts[1:] else ""),
        "model_seeds": f" ({others} for IRGAN, FPMC and MARank)" if others != seeds else "",
        "more_rounds": more.format(enough=ENOUGH, plenty=PLENTY),
        "cap": f" No run trains longer than {cap:g} seconds (of the processor, on a CPU)." if cap else "",
    }


def _taken(facts: Data) -> str:
    """The methods whose settings were taken from an earlier study, unless all were."""
    taken = facts.get("taken", {})
    if all(set(names) == set(facts["contenders"]) for names in taken.values()):
        return ""
    labels = {log: ", ".join(METHODS[name].label for name in names) for log, names in taken.items() if names}
    return " for " + "; ".join(f"{whose} on {log}" for log, whose in labels.items())
