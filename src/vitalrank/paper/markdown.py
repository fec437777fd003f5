"""Data of the experiments as Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence

from vitalrank.comparing.tables import p_text, pipe_table
from vitalrank.paper.earlier import label_of, mark_of
from vitalrank.paper.experiment import Data
from vitalrank.paper.methods import METHODS
from vitalrank.paper.published import STANDS_FOR, STATISTICS, TRIES

GAP = "–"  # nothing was run


def spread_text(found: Data | None, digits: int = 4) -> str:
    """Mean and deviation as they are printed."""
    if found is None:
        return GAP
    spread = "" if found["sd"] is None else f" ± {found['sd']:.{digits}f}"
    return f"{found['mean']:.{digits}f}{spread}"


def percent(value: float | None) -> str:
    """A ratio's distance from 1.

    Examples
    --------
    >>> percent(0.0412), percent(-0.1), percent(None)
    ('+4.1 %', '-10.0 %', '–')
    """
    return GAP if value is None else f"{100 * value:+.1f} %"


def statistics(data: Data) -> str:
    """Table 1, with the paper's logs below those that stand in for them."""
    rows = []
    for name, row in data["logs"].items():
        core = f"{row['min_user']} / {row['min_item']}"
        rows.append([
            name, core, f"{row['users']:,}", f"{row['items']:,}", f"{row['observations']:,}", f"{row['sparsity']:.2%}",
            f"{row['item_gini']:.2f}",
        ])  # fmt: skip
        if name in STANDS_FOR:
            users, items, observations, sparsity = STATISTICS[STANDS_FOR[name]]
            rows.append([
                f"paper: {STANDS_FOR[name].replace('&', ' & ')}", "10 / 10", f"{users:,}", f"{items:,}",
                f"{observations:,}", f"{sparsity:.2%}", "",
            ])  # fmt: skip
    return pipe_table(["log", "core", "users", "items", "observations", "sparsity", "Gini of item degree"], rows)


def imbalance_by_beta(data: Data) -> str:
    """The ends of Figure 2, and Theorem 1."""
    rows = []
    for name, log in data["logs"].items():
        first, last = (f"{log['min'][place]:.3g} to {log['max'][place]:.3g}" for place in (0, -1))
        rows.append([name, first, last, f"{min(log['ordered']):.0%}"])
    return pipe_table(["log", "imbalance at beta 0", "at beta 1", "degrees in Theorem 1's order"], rows)


def bias_by_rank(data: Data) -> str:
    """Some points of Figure 4."""
    rows = []
    for name, log in data["logs"].items():
        for place in (0, len(log["rank"]) // 2, -2):
            simulated = f"{log['psi_simulated'][place]:.2f}"
            limited = f"{log['psi_kappa_64'][place]:.2f}"
            rows.append([
                name, f"{log['rank'][place]:,.0f}", f"{log['psi'][place]:.2f}", simulated, limited,
                f"{log['ranks_off'][place]:,.1f}",
            ])  # fmt: skip
    header = ["log", "rank r", "psi(r)", "by trial", "by trial, at most 64 draws", "r psi(r), ranks too many"]
    return f"{pipe_table(header, rows)}\n\n{_rank_note(data['logs'])}"


def _rank_note(logs: Data) -> str:
    last = ", ".join(f"{name} {log['Z']:,.0f}" for name, log in logs.items())
    beta = " or ".join(dict.fromkeys(str(log["beta"]) for log in logs.values()))
    return (
        f"A rank is no number of items here: an item counts as pi, its degree to the power of beta ({beta}), as in the "
        f"draws of VINS. So the last rank is Z, the sum of pi over all items, which is more than there are: {last}."
    )


def scores(data: Data) -> str:
    """Table 2: two columns a log."""
    logs = data["logs"]
    header = ["sampler", *(f"{name} {metric}" for name in logs for metric in ("F1@10", "NDCG@10"))]
    present = {method for log in logs.values() for method in log["rows"]}
    names = [name for name in METHODS if name in present]
    paper = [name for name in names if not METHODS[name].beyond]
    rows = [[METHODS[name].label, *_score_cells(logs, name)] for name in paper]
    rows += [[f"VINS against {which}", *_gain_cells(logs, place)] for place, which in enumerate(_PLACES)]
    tables = [pipe_table(header, rows), _SCORE_NOTE]
    later = [name for name in names if METHODS[name].beyond]
    if later:
        rows = [[METHODS[name].label, *_score_cells(logs, name)] for name in later]
        tables += ["Beyond the paper, tuned and run likewise:", pipe_table(header, rows)]
    return "\n\n".join([*tables, *_chosen_settings(logs, names)])


_PLACES = ("the best baseline", "the second")
_SCORE_NOTE = (
    "**Bold**: best of these by its mean; _italic_: best baseline of this study; `*`: second. The lines that compare "
    "VINS take the best and the second by each column's own metric. Mean ± standard deviation over seeds. p: paired "
    "t-test over users on NDCG@10, each user's value the mean over seeds, adjusted by Holm's method for the number of "
    "methods. †: a run was cut at the time limit for one run."
)


def _score_cells(logs: Data, name: str) -> list[str]:
    cells = []
    for log in logs.values():
        row = log["rows"].get(name)
        paper = [other for other in log["order"] if not METHODS[other].beyond]
        for metric in ("f1@10", "ndcg@10"):
            if row is None or row["metrics"] is None:
                cells.append(GAP)
                continue
            text = spread_text(row["metrics"][metric]) + ("†" if row["cut"] else "") + mark_of(row)
            if metric == "ndcg@10" and paper and name == paper[0]:
                text = f"**{text}**"
            elif metric == "ndcg@10" and name == log["best_baseline"]:
                text = f"_{text}_"
            elif metric == "ndcg@10" and name == log["second_baseline"]:
                text = f"{text} `*`"
            cells.append(text)
    return cells


def _gain_cells(logs: Data, place: int) -> list[str]:
    cells = []
    for log in logs.values():
        for metric in ("f1@10", "ndcg@10"):
            found = log["ours_against"].get(_baseline(log, metric, place))
            p_value = "" if found is None or metric == "f1@10" else f", p {p_text(found['p'])}"
            cells.append(GAP if found is None else percent(found["relative"][metric]) + p_value)
    return cells


def _baseline(log: Data, metric: str, place: int) -> str | None:
    """The best baseline by a metric, or the second, of those that VINS was compared with."""
    names = [name for name in log["ours_against"] if not METHODS[name].beyond]
    ranked = sorted(names, key=lambda name: -log["rows"][name]["metrics"][metric]["mean"])
    return ranked[place] if place < len(ranked) else None


def _chosen_settings(logs: Data, names: Sequence[str]) -> list[str]:
    """What the search chose, and the cost of its runs; older studies did not record processor seconds."""
    parts = []
    for log, found in logs.items():
        shown = [found["rows"][name] for name in names if found["rows"].get(name, {}).get("settings") is not None]
        is_timed = any(row.get("processor_seconds") for row in shown)
        rows = []
        for row in shown:
            chosen = ", ".join(f"{key} {value}" for key, value in row["settings"].items() if key != "dim")
            cells = [label_of(row), chosen, str(row["trials"]), spread_text(row["valid"]), _plain(row["best_epoch"])]
            seconds = [_plain(row.get("processor_seconds")), _whole(row.get("search_processor_seconds"))]
            rows.append([*cells, _plain(row["tries"]), *(seconds if is_timed else [])])
        if rows:
            header = [*_SETTINGS_HEADER, *(_SECONDS_HEADER if is_timed else [])]
            parts += [f"### {log}: settings", pipe_table(header, rows), *([_SECONDS_NOTE] if is_timed else [])]
    return parts


_SETTINGS_HEADER = ("", "chosen on valid", "trials", "NDCG@10 on valid", "best epoch", "tries")
_SECONDS_HEADER = ("s a run", "s of the search")
_SECONDS_NOTE = (
    "Seconds are the processor's: of a final run with its evaluations on valid, and of all trials and run-offs."
)


def _whole(seconds: float | None) -> str:
    return GAP if seconds is None else f"{seconds:.0f}"


def _plain(found: Data | None) -> str:
    return GAP if found is None else f"{found['mean']:.1f}"


def tries_by_epoch(data: Data) -> str:
    """Table 3: one block a log."""
    header = ["log", "sampler", *(f"epoch {epoch}" for epoch in data["epochs"])]
    rows = []
    for name, log in data["logs"].items():
        for sampler, found in log.items():
            cells = [found.get(str(epoch)) for epoch in data["epochs"]]
            text = [GAP if cell is None else f"{cell['mean']:.1f} ± {cell['sd']:.1f}" for cell in cells]
            rows.append([name, METHODS[sampler].label, *text])
            theirs = TRIES.get(STANDS_FOR.get(name, ""), {}).get(sampler)
            if theirs is not None:
                paper = f"paper: {STANDS_FOR[name].replace('&', ' & ')}"
                rows.append([paper, METHODS[sampler].label, *(f"{tries:.1f}" for tries in theirs)])
    return pipe_table(header, rows)


def pictures(data: Data) -> str:
    """The numbers beside Figure 3."""
    rows = []
    for name, log in data["logs"].items():
        for sampler, found in log.items():
            rows.append([
                name, METHODS[sampler].label, spread_text(found["clustering"], 2),
                spread_text(found["norm_correlation"], 2), spread_text(found["vanished"], 2),
            ])  # fmt: skip
    header = ["log", "sampler", "clustering by frequency", "norm and degree (Spearman)", "vanished gradients"]
    return pipe_table(header, rows)


def imbalance_by_epoch(data: Data) -> str:
    """The last point of every curve of Figures 5 and 6."""
    rows = []
    for name, log in data["logs"].items():
        for found in log.values():
            ends = [f"{found[side][-1]:.3g}" for side in ("max", "min")]
            rows.append([name, label_of(found), str(found["epoch"][-1]), *ends, f"{found['never'][-1]:.1%}"])
    header = ["log", "sampler", "epoch", "largest imbalance", "smallest", "items never a negative in the epoch"]
    return pipe_table(header, rows)
