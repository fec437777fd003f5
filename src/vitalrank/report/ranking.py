"""The ranking of the report page: a table that sorts by any column."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from vitalrank._util.checks import parse_metric
from vitalrank.comparing.results import Results, Row
from vitalrank.comparing.tables import p_text, seconds_text, settings_notes, shown_metrics
from vitalrank.report.charts import style


def metric_name(metric: str) -> str:
    """A metric as one writes it.

    Examples
    --------
    >>> metric_name("ndcg@10"), metric_name("hit_rate@5")
    ('NDCG@10', 'Hit rate@5')
    """
    name, length = parse_metric(metric)
    written = name.upper() if name in ("ndcg", "map", "mrr", "f1") else name.replace("_", " ").capitalize()
    return f"{written}@{length}"


def ranking(results: Results) -> str:
    columns = [column for column in _columns(results) if any(value is not None for value, _ in column.cells)]
    rows = zip(*(column.cells for column in columns), strict=True)
    body = "".join(
        f"<tr{' class=best' if number == 0 else ''}>{''.join(_cell(*cell) for cell in row)}</tr>"
        for number, row in enumerate(rows)
    )
    ranks = metric_name(results.metric)
    head = _head if len(results.rows) > 1 else _plain_head
    heads = "".join(head(column.name, column.first, column.name == ranks) for column in columns)
    said = [f"{column.meaning}" for column in columns if column.meaning]
    said.insert(0, "Means over the test users." + (_SPREAD if any(row.spread for row in results.rows) else ""))
    alone = len(results.rows) == 1  # nothing to sort, and no settings of others to be fair to
    if not alone:
        said += [*settings_notes(results), "Click a column to sort."]
    return (
        f'<section class="ranking"><h2>{"Figures" if alone else "Ranking"}</h2><div class="scroll">'
        f"<table{'' if alone else ' class=sortable'}><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<p class="soft">{escape(" ".join(said))}</p></section>'
    )


_SPREAD = " The smaller number is the standard deviation over seeds."


class _Column(NamedTuple):
    """One column of the ranking: values to sort by, and what to show."""

    name: str
    first: str  # the order of the first click
    cells: list[tuple[Any, str]]
    meaning: str = ""


def _columns(results: Results) -> Iterator[_Column]:
    rows = results.rows
    swatches = [f'<span class="swatch {style(number)}"></span>{escape(row.label)}' for number, row in enumerate(rows)]
    yield _Column("method", "ascending", [(row.label, swatch) for row, swatch in zip(rows, swatches, strict=True)])
    for name in shown_metrics(results):
        cells = [(row.mean[name], f"{row.mean[name]:.4f}{_spread(row, name)}") for row in rows]
        yield _Column(metric_name(name), "descending", cells)
    meaning = "p: paired t-test over the users against the best other method, adjusted by Holm for their number."
    yield _Column("p", "ascending", [(row.p_value, escape(p_text(row.p_value))) for row in rows], meaning)
    tries = [(row.tries, "" if row.tries is None else f"{row.tries:.1f}") for row in rows]
    yield _Column("tries", "ascending", tries, "Tries: mean draws per positive.")
    yield _Column("epochs", "ascending", [(row.epochs or None, f"{row.epochs:.3g}") for row in rows])
    seconds = [(row.seconds, escape(seconds_text(row.seconds))) for row in rows]
    yield _Column("seconds", "ascending", seconds, "Seconds: training alone.")


def _spread(row: Row, name: str) -> str:
    return "" if row.spread is None else f" <small>± {row.spread[name]:.4f}</small>"


def _head(name: str, first: str, ranks: bool) -> str:
    sort = ' aria-sort="descending"' if ranks else ""
    return f'<th scope="col" data-first="{first}"{sort}><button type="button">{escape(name)}</button></th>'


def _plain_head(name: str, first: str, ranks: bool) -> str:
    return f'<th scope="col">{escape(name)}</th>'


def _cell(value: object, inside: str) -> str:
    return f'<td data-v="{escape("" if value is None else str(value))}">{inside}</td>'
