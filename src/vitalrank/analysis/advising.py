"""From numbers to words: which knob to turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vitalrank.analysis.embeddings import Clustering
from vitalrank.analysis.exposures import Exposure

# Above these, something is worth saying.
EXHAUSTED = 0.3  # share of positives whose search ran into its limit
VANISHED = 0.7  # share of positives whose pairs pull with less than 0.01
CROWDED = 0.5  # share of places that go to head items, which hold a third of the log
CLUSTERED = 0.5  # score of frequency clustering
FELL = 0.1  # loss of quality since the best epoch


@dataclass(frozen=True)
class Evidence:
    """What is known of a run."""

    last: dict[str, Any]
    records: Sequence[dict[str, Any]]
    metric: str | None
    exposure: Exposure | None
    clustering: Clustering | None


def advice(
    history: Sequence[dict[str, Any]],
    *,
    exposure: Exposure | None = None,
    clustering: Clustering | None = None,
) -> list[str]:
    """Sentences on what to change, most pressing first; one that says so if nothing stands out.

    Parameters
    ----------
    history
        The model's history.
    exposure, clustering
        What :func:`exposure` and :func:`frequency_clustering` found, if they were asked.

    Examples
    --------
    >>> for sentence in advice([{"epoch": 1, "loss": 0.2, "tries": 1.0, "vanished": 0.9, "skipped": 3}]):
    ...     print(sentence.split(":")[0])
    Gradients vanish
    3 positives were skipped because their users have seen every item
    """
    records = [dict(record) for record in history]
    metric = next((name for record in records for name in record if "@" in name), None)
    evidence = Evidence(records[-1] if records else {}, records, metric, exposure, clustering)
    said = [sentence for rule in RULES if (sentence := rule(evidence)) is not None]
    return said or ["Nothing stands out: tries, gradients, quality and lists look healthy."]


def _exhausted(run: Evidence) -> str | None:
    share = run.last.get("unviolated")
    if share is None or share < EXHAUSTED:
        return None
    return (
        f"The search ran into its limit for {_percent(share)} of the positives of the last epoch: raise kappa, "
        "or raise margin so that more candidates count."
    )


def _vanished(run: Evidence) -> str | None:
    share = run.last.get("vanished")
    if share is None or share < VANISHED:
        return None
    adaptive = run.last.get("unviolated") is not None
    knob = (
        "lower margin, so that only closer candidates are taken, or raise reg to keep the scores small."
        if adaptive
        else "draw harder negatives with vins, lfm-w or dns (more candidates), or raise reg to keep the scores small."
    )
    return f"Gradients vanish: {_percent(share)} of the positives teach nothing any more; {knob}"


def _crowded(run: Evidence) -> str | None:
    if run.exposure is None or run.exposure.head < CROWDED:
        return None
    return (
        f"The head crowds the lists: {_percent(run.exposure.head)} of the places go to items that hold a third of "
        f"the log, and {_percent(run.exposure.coverage)} of the catalogue is shown at all; raise beta (vins, pop), "
        "so that popular items serve as negatives more often."
    )


def _clustered(run: Evidence) -> str | None:
    if run.clustering is None or run.clustering.score < CLUSTERED:
        return None
    return (
        "Item vectors lie together by frequency: neighbours tell the degree class of "
        f"{_percent(run.clustering.accuracy)} of the items (chance: {_percent(run.clustering.chance)}); raise beta "
        "(vins, pop), or go over to them from uniform negatives."
    )


def _unfinished(run: Evidence) -> str | None:
    values = _measured(run)
    if len(values) < 3 or max(values, key=lambda pair: pair[1]) != values[-1]:
        return None
    return f"{run.metric} was still rising in the last epoch: give more epochs."


def _overfitted(run: Evidence) -> str | None:
    values = _measured(run)
    if len(values) < 3:
        return None
    epoch, best = max(values, key=lambda pair: pair[1])
    if best <= 0 or values[-1][1] > (1 - FELL) * best:
        return None
    return (
        f"{run.metric} fell by {_percent(1 - values[-1][1] / best)} after epoch {epoch}: raise reg or lower lr; "
        "the best epoch is the one that was kept."
    )


def _restless(run: Evidence) -> str | None:
    losses = [record["loss"] for record in run.records if record.get("loss") is not None]
    if len(losses) < 3 or losses[-1] <= losses[0] or run.last.get("unviolated") is not None:
        return None  # a sampler that searches for violations keeps its loss up by design
    return "The loss did not fall: lower lr, or check that the log is the right one."


def _skipped(run: Evidence) -> str | None:
    count = run.last.get("skipped") or 0
    if not count:
        return None
    return f"{count:,} positives were skipped because their users have seen every item: leave such users out."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _measured(run: Evidence) -> list[tuple[int, float]]:
    if run.metric is None:
        return []
    return [(record["epoch"], record[run.metric]) for record in run.records if run.metric in record]


RULES: tuple[Callable[[Evidence], str | None], ...] = (
    _exhausted,
    _vanished,
    _crowded,
    _clustered,
    _overfitted,
    _unfinished,
    _restless,
    _skipped,
)
