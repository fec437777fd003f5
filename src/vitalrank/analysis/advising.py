"""From numbers to advice: which setting to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vitalrank.analysis.embeddings import Clustering
from vitalrank.analysis.exposures import Exposure
from vitalrank.history import History

# Above these, something is worth saying.
EXHAUSTED = 0.3  # share of positives whose search ran into its limit
VANISHED = 0.7  # share of positives whose loss has a slope below 0.01
CROWDED = 0.5  # share of places that go to head items, which hold a third of the log
CLUSTERED = 0.5  # score of frequency clustering
FELL = 0.1  # loss of quality since the best epoch

# What beta did on six logs, from benchmarks/advice.py: the least and the most of the points that the head's share of
# the lists fell by, and of the change of NDCG@10 in percent.
TO_HALF = ((0, 15), (-3, 18))  # from beta 0 to 0.5
TO_ONE = ((0, 12), (-5, 0))  # from 0.5 to 1


@dataclass(frozen=True)
class Evidence:
    """What is known of a run."""

    last: dict[str, Any]
    records: Sequence[dict[str, Any]]
    metric: str | None
    exposure: Exposure | None
    clustering: Clustering | None
    sampler: str | None = None  # its repr

    def setting(self, name: str) -> float | None:
        """A numeric setting of the sampler, if it has one of that name."""
        found = re.search(rf"\b{name}=(-?[0-9.]+(?:e[+-]?[0-9]+)?)", self.sampler or "")
        return float(found[1]) if found else None


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
    sampler = history.sampler if isinstance(history, History) else None
    evidence = Evidence(records[-1] if records else {}, records, metric, exposure, clustering, sampler)
    said = [sentence for rule in RULES if (sentence := rule(evidence)) is not None]
    return said or ["Nothing stands out: tries, gradients, quality and lists look healthy."]


def _exhausted(run: Evidence) -> str | None:
    share = run.last.get("unviolated")
    if share is None or share < EXHAUSTED or _is_rising(run):
        return None
    return (
        f"The search ran into its limit for {_percent(share)} of the positives of the last epoch: raise kappa, which "
        "makes searches longer, or raise margin so that more candidates count."
    )


def _vanished(run: Evidence) -> str | None:
    share = run.last.get("vanished")
    if share is None or share < VANISHED or _is_rising(run):
        return None  # quality that still rises contradicts it
    small = "raise reg to keep the scores small."
    margin = run.setting("margin")
    if run.last.get("unviolated") is None:
        remedy = f"draw harder negatives with vins, lfm-w or dns (more candidates), or {small}"
    elif margin is None or margin > 0:
        remedy = f"lower margin, so that only closer candidates are taken, or {small}"
    else:
        remedy = small  # below 0 no candidate that merely comes close would count
    return f"Gradients vanish: {_percent(share)} of the positives hardly change the model any more; {remedy}"


def _crowded(run: Evidence) -> str | None:
    if run.exposure is None or not _is_crowded(run):
        return None
    return (
        f"The head crowds the lists: {_percent(run.exposure.head)} of the places go to items that hold a third of "
        f"the log, and {_percent(run.exposure.coverage)} of the catalogue is shown at all; {_by_beta(run)}."
    )


def _clustered(run: Evidence) -> str | None:
    if run.clustering is None or run.clustering.score < CLUSTERED or _is_rising(run):
        return None
    remedy = "what is said of the head holds here too" if _is_crowded(run) else _by_beta(run)
    return (
        "Item vectors lie together by frequency: neighbours predict the degree class of "
        f"{_percent(run.clustering.accuracy)} of the items (chance: {_percent(run.clustering.chance)}); {remedy}."
    )


def _is_crowded(run: Evidence) -> bool:
    """Not while quality rises: the head's share falls with more epochs."""
    return run.exposure is not None and run.exposure.head >= CROWDED and not _is_rising(run)


def _by_beta(run: Evidence) -> str:
    """What the exponent of the degree can still do, and what that did to quality where it was measured."""
    beta = run.setting("beta")
    if beta is not None and beta >= 1:
        return "beta is at its limit of 1, so this sampler cannot shift more places to rare items"
    if beta is None and run.sampler is not None:
        return f"negatives drawn by degree may help (vins or pop, beta 0.5): {_measured_price('0 to 0.5', TO_HALF)}"
    if beta is not None and beta < 0.5:
        return f"raise beta to 0.5: {_measured_price('0 to 0.5', TO_HALF)}"
    above = "" if beta is None else f" above {beta:g}"
    return f"if quality may pay for it, raise beta{above}: {_measured_price('0.5 to 1', TO_ONE)}"


def _measured_price(step: str, found: tuple[tuple[int, int], tuple[int, int]]) -> str:
    (least, most), (worst, best) = found
    change = f"changed by {worst} to +{best} %" if best > 0 else f"fell by {-best} to {-worst} %"
    points = f"the head lost {least} to {most} points of its share"
    return f"from {step} with vins, {points} on six logs, and NDCG@10 {change}"


def _unfinished(run: Evidence) -> str | None:
    if not _is_rising(run):
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
    values = [value for _, value in _measured(run)]
    if len(values) > 1 and max(values) > values[0]:
        return None  # quality that rose contradicts it
    return "The loss did not fall: lower lr, or check that the log is the right one."


def _skipped(run: Evidence) -> str | None:
    count = run.last.get("skipped") or 0
    if not count:
        return None
    return f"{count:,} positives were skipped because their users have seen every item: leave such users out."


def _is_rising(run: Evidence) -> bool:
    """Whether the last evaluation, of at least three, was the best."""
    values = _measured(run)
    return len(values) >= 3 and max(values, key=lambda pair: pair[1]) == values[-1]


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
