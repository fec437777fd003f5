"""The ranking as CSV, JSON, LaTeX and Markdown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitalrank._util.display import csv_table
from vitalrank._util.outputs import adopt, check_outputs, write_recorded
from vitalrank.comparing.store import is_comparison

if TYPE_CHECKING:
    from vitalrank.comparing.results import Results, Row

_FIRST = ("ndcg", "recall", "f1", "coverage")  # metrics of the short tables
_LATEX = {
    "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
}  # fmt: skip


def shown_metrics(results: Results) -> list[str]:
    """The metric that ranks, then the usual ones."""
    have = list(results.rows[0].mean)
    usual = [name for kind in _FIRST for name in have if name.startswith(f"{kind}@")]
    return list(dict.fromkeys([results.metric, *usual]))


def to_csv(results: Results) -> str:
    """One line per row, a column for each mean and each spread."""
    return csv_table([flat(row) for row in results.rows])


def results_to_json(results: Results) -> str:
    """Everything: metadata, ranking, and every run with its history."""
    runs = []
    for outcome in results.outcomes:
        plain = asdict(outcome)
        del plain["per_user"], plain["projection"]
        runs.append(plain)
    ranking = [flat(row) for row in results.rows]
    return json.dumps({**results.metadata, "metric": results.metric, "ranking": ranking, "runs": runs}, indent=1)


def to_markdown(results: Results) -> str:
    """A pipe table, and what its columns mean below it."""
    header, *rows = cells(results)
    return "\n\n".join([pipe_table(header, rows), *notes(results)]) + "\n"


def notes(results: Results) -> list[str]:
    """What p-values are against, and where settings come from."""
    said = []
    if any(row.p_value is not None for row in results.rows):
        said.append(
            "p: paired t-test over the test users, each method against the best other one, adjusted by Holm's method."
        )
    return [*said, *settings_notes(results)]


def settings_notes(results: Results) -> list[str]:
    """Where settings come from."""
    trials = results.metadata.get("tuning", {}).get("trials")
    if trials:
        return [f"Settings of each method: the best of {trials} trials on the validation set."]
    if any(row.runs[0].sampler for row in results.rows):
        return ["Settings were not tuned; --tune TRIALS (tune=) searches them on the validation set."]
    return []


def pipe_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A Markdown table; the first column to the left, numbers to the right.

    Examples
    --------
    >>> print(pipe_table(["a|b", "c"], [["x", "1"]]))
    | a\|b | c |
    | --- | ---: |
    | x | 1 |
    """
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    escaped = [[cell.replace("|", r"\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def to_latex(results: Results) -> str:
    """A booktabs table; the best mean of each metric is bold, the second underlined."""
    header, *rows = cells(results)
    metrics = shown_metrics(results)
    for column, name in enumerate(metrics, 1):
        order = sorted(range(len(rows)), key=lambda i, name=name: -results.rows[i].mean[name])  # type: ignore[misc]
        for place, row in enumerate(rows):
            text = row[column].replace("±", r"$\pm$")
            row[column] = {0: rf"\textbf{{{text}}}", 1: rf"\underline{{{text}}}"}.get(order.index(place), text)
    body = [[latex(row[0]), *row[1:]] for row in rows]
    lines = [
        *(f"% {sentence}" for sentence in notes(results)),
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        " & ".join(latex(cell) for cell in header) + r" \\",
        r"\midrule",
        *(" & ".join(row).replace("< 0.0", "$<$ 0.0") + r" \\" for row in body),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def cells(results: Results, narrow: bool = False) -> list[list[str]]:
    """Header and rows of the short table, as text; ``narrow`` keeps three metrics and the spread of the first."""
    metrics = shown_metrics(results)[: 3 if narrow else None]
    table = [["", *metrics, "p", "tries", "epochs", "seconds"]]
    for row in results.rows:
        plain = metrics[1:] if narrow else []
        values = [f"{row.mean[name]:.4f}" if name in plain else with_spread(row, name) for name in metrics]
        tries = "" if row.tries is None else f"{row.tries:.1f}"
        table.append([row.label, *values, p_text(row.p_value), tries, f"{row.epochs:.3g}", seconds_text(row.seconds)])
    return table


def with_spread(row: Row, name: str) -> str:
    """Mean and, with several seeds, its standard deviation."""
    spread = "" if row.spread is None else f" ± {row.spread[name]:.4f}"
    return f"{row.mean[name]:.4f}{spread}"


def seconds_text(seconds: float) -> str:
    """A time as precise as it is worth.

    Examples
    --------
    >>> seconds_text(3e-6), seconds_text(0.1234), seconds_text(41.26), seconds_text(4126.0)
    ('< 0.01', '0.12', '41.3', '4,126')
    """
    if seconds < 0.01:
        return "< 0.01"
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}" if seconds < 100 else f"{seconds:,.0f}"


def p_text(p_value: float | None) -> str:
    """A p-value as one writes it.

    Examples
    --------
    >>> p_text(0.0312), p_text(1e-9), p_text(None)
    ('0.031', '< 0.001', '')
    """
    if p_value is None:
        return ""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def latex(text: str) -> str:
    r"""Text with LaTeX's own characters escaped.

    Examples
    --------
    >>> print(latex("hit_rate@10 50 %"))
    hit\_rate@10 50 \%
    """
    return "".join(_LATEX.get(character, character) for character in text)


def flat(row: Row) -> dict[str, Any]:
    """A row as plain values by column name."""
    return {
        "label": row.label,
        "model": row.runs[0].model,
        "sampler": row.runs[0].sampler,
        "runs": len(row.runs),
        **row.mean,
        **{f"{name} sd": None if row.spread is None else row.spread[name] for name in row.mean},
        "best other": row.other,
        "difference": row.difference,
        "p": row.p_value,
        "tries": row.tries,
        "epochs": row.epochs,
        "seconds": row.seconds,
    }


FORMATS: dict[str, Callable[[Results], str]] = {
    "csv": to_csv,
    "json": results_to_json,
    "tex": to_latex,
    "md": to_markdown,
}

# How the tables of version 0.1 begin.
_EARLIER = {
    "results.csv": "label,model,sampler,runs,",
    "results.json": '{\n "log": {',
    "results.tex": "\\begin{tabular}{l",
    "results.md": "|  | ",
}


def check_tables(folder: str | os.PathLike[str], inputs: Sequence[Path] = (), force: bool = False) -> None:
    """Refuse to write tables over files that are not ours, or over an input."""
    if is_comparison(Path(folder)):
        adopt(Path(folder), _EARLIER)
    check_outputs(table_paths(folder), inputs, force)


def table_paths(folder: str | os.PathLike[str]) -> list[Path]:
    """The files that ``write_tables`` writes.

    Examples
    --------
    >>> [path.name for path in table_paths("cmp")]
    ['results.csv', 'results.json', 'results.tex', 'results.md']
    """
    return [Path(folder) / f"results.{ending}" for ending in FORMATS]


def write_tables(results: Results, folder: str | os.PathLike[str], force: bool = False) -> list[Path]:
    """Write the ranking as ``results.csv``, ``.json``, ``.tex`` and ``.md``.

    Files there that the library did not write, or that were changed since, are replaced only with ``force``.

    Examples
    --------
    >>> import tempfile, vitalrank as vr
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> results = vr.compare(log, {"uni": vr.Uniform()}, seeds=1, baselines=(), config=vr.TrainConfig(epochs=1))
    >>> [path.name for path in write_tables(results, tempfile.mkdtemp())]
    ['results.csv', 'results.json', 'results.tex', 'results.md']
    """
    paths = table_paths(folder)
    check_outputs(paths, force=force)
    for path, make in zip(paths, FORMATS.values(), strict=True):
        write_recorded(path, make(results), force)
    return paths
