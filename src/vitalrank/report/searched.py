"""What a search over models tried, on the page of :func:`vitalrank.best`."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from vitalrank.comparing.results import Results
from vitalrank.comparing.tables import seconds_text
from vitalrank.report.ranking import metric_name

SEARCH = "search"  # the results' note of it: a verdict, and a line for each candidate


def search_verdict(results: Results) -> str | None:
    """What the search says of its winner; None for results of no search."""
    said: str | None = results.metadata.get(SEARCH, {}).get("verdict")
    return said


def searched(results: Results) -> str:
    """Every candidate by its best value on validation."""
    lines = results.metadata.get(SEARCH, {}).get("ranking", [])
    if not lines:
        return ""
    metric = metric_name(results.metric)
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("candidate", f"{metric} on valid", "trials", "seconds"))
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(line))}</tr>" for line in lines)
    words = (
        "The best of each candidate's trials on the validation set, the winner first. Those above were trained "
        "again on all but the test set, and measured there once."
    )
    return (
        '<section class="ranking"><h2>What was searched</h2><div class="scroll"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<p class="soft">{words}</p></section>'
    )


def _cells(line: Mapping[str, Any]) -> list[str]:
    value = "" if line["value"] is None else f"{line['value']:.4f}"
    return [escape(line["label"]), value, str(line["trials"]), escape(seconds_text(line["seconds"]))]
