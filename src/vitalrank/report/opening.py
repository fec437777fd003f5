"""The top of the report page: the title, the answer, and what it was found on."""

from __future__ import annotations

from html import escape

from vitalrank.comparing.results import Results
from vitalrank.comparing.tables import p_text
from vitalrank.report.ranking import metric_name
from vitalrank.report.searched import search_verdict


def summary_sentence(results: Results) -> str:
    """Who ranks first, by how much, and whether that is more than luck."""
    best = results.rows[0]
    value = f"{metric_name(results.metric)} {best.mean[results.metric]:.4f}"
    if best.other is None or best.difference is None:
        return f"{best.label} reaches {value}."
    other = best.mean[results.metric] - best.difference
    lead = f"{100 * best.difference / other:.1f} %" if other > 0 else f"{best.difference:.4f}"
    p = "" if best.p_value is None else f" (p {'' if best.p_value < 0.001 else '= '}{p_text(best.p_value)})"
    if best.p_value is None or best.p_value < 0.05:
        return f"{best.label} ranks best with {value}, {lead} above {best.other}{p}."
    return f"{best.label} is ahead with {value}, but {lead} above {best.other} may be luck{p}."


def opening(results: Results, title: str) -> str:
    log, split = results.metadata.get("log", {}), results.metadata.get("split", {})
    seeds = len(results.metadata.get("seeds", ()))
    words = [f"{log[name]:,} {name}" for name in ("users", "items", "interactions") if name in log]
    if "test" in split:
        words.append(f"tested on each user’s last {100 * split['test']:.0f} %")
    if seeds:
        words.append(f"{seeds} seeds" if seeds > 1 else "one seed")
    lead = search_verdict(results) or summary_sentence(results)
    return (
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>'
        f'<p class="soft">{escape(" · ".join(words))}</p></header>'
    )
