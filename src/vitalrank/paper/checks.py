"""How each claim of the paper is checked against the data, log by log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vitalrank.comparing.tables import p_text
from vitalrank.paper.experiment import Data
from vitalrank.paper.markdown import percent
from vitalrank.paper.methods import METHODS

ResultsByExperiment = Mapping[str, Data]
SIGNIFICANT = 0.05
CLOSE = 0.99  # of the best: good enough
_KNN = "itemknn"


@dataclass(frozen=True)
class Finding:
    """What one log says."""

    log: str
    held: bool
    said: str
    with_knn: bool | None = None  # whether it held with Item-KNN counted, where that makes a difference


def found_logs(results: ResultsByExperiment, name: str) -> Iterator[tuple[str, Data]]:
    yield from ((log, found) for log, found in results[name]["logs"].items() if found)


def _is_above(value: Data, bar: float) -> bool:
    """Whether a mean lies above a bar by more than its runs differ from each other."""
    return bool(value["mean"] - bar > (value["sd"] or 0.0))


def _samplers(found: Data, order: str = "order") -> list[str]:
    """The paper's samplers, the best first; Item-KNN is none."""
    return [name for name in found[order] if not METHODS[name].beyond and name != _KNN]


def _knn_above(found: Data, than: str, order: str = "order", counted: str = "") -> str:
    """Samplers that Item-KNN beats, and the count with Item-KNN included; the claim itself does not count it."""
    names = found[order]
    if _KNN not in names or names.index(_KNN) > names.index(than):
        return ""
    row = found["rows"][_KNN]
    value = row["metrics"]["ndcg@10"] if order == "order" else row["valid"]
    said = f"{METHODS[_KNN].label}, no sampler, is above {METHODS[than].label} with {value['mean']:.4f}"
    return f" ({said}{counted})"


# --------------------------------------------------------------------------------------- Sections 3 and 4: analysis


def theorem1(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure2"):
        # At beta 1 the value is c / (|E| - d): it still grows with d.
        yield Finding(log, min(found["ordered"]) == 1.0, f"{min(found['ordered']):.0%} of the steps in order")


def under_sampled(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure2"):
        first, last = ((found["min"][place], found["max"][place]) for place in (0, -1))
        held = first[0] < 1 < first[1] and last[0] > first[0] and last[1] < first[1]
        yield Finding(
            log, held, f"{first[0]:.2g} to {first[1]:.3g} at beta 0, {last[0]:.2g} to {last[1]:.3g} at beta 1"
        )


def norms(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure3"):
        if "uni" in found:
            value = found["uni"]["norm_correlation"]
            yield Finding(log, _is_above(value, 0.0), f"Spearman {value['mean']:+.2f}")


def clustering(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure3"):
        if {"uni", "vins"} <= found.keys():
            uni, vins = (found[name]["clustering"]["mean"] for name in ("uni", "vins"))
            yield Finding(log, 0 < uni > vins, f"Uniform {uni:.2f}, VINS {vins:.2f} (0 chance, 1 perfect)")


def vanishing(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure3"):
        if {"uni", "vins"} <= found.keys():
            uni, vins = found["uni"]["vanished"], found["vins"]["vanished"]["mean"]
            held = _is_above(uni, vins)
            yield Finding(log, held, f"Uniform {uni['mean']:.0%}, VINS {vins:.0%} of the positives")


def psi_falls(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure4"):
        falls = bool(np.all(np.diff(found["psi"]) < 0))
        yield Finding(log, falls, f"psi from {found['psi'][0]:.1f} at rank 1 to {found['psi'][-1]:.2f} at the last")


def error_of_high_ranks(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure4"):
        off = found["ranks_off"]
        peak = int(np.argmax(off))
        said = (
            f"the ratio psi is largest at the top ({found['psi'][0]:.1f}); in ranks the error is {off[0]:.1f} there "
            f"and {off[peak]:,.0f} at rank {found['rank'][peak]:,.0f}"
        )
        yield Finding(log, off[0] == min(off[: peak + 1]) and found["psi"][0] <= found["psi"][peak], said)


# --------------------------------------------------------------------------------------- Section 5: RQ1


def calmer(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure5"):
        others = [name for name in found if name not in ("uni",) and not METHODS[name].beyond]
        if "uni" in found and others:
            uni = found["uni"]
            calm = [found[n]["max"][-1] <= uni["max"][-1] and found[n]["min"][-1] >= uni["min"][-1] for n in others]
            yield Finding(log, 2 * sum(calm) > len(others), f"{sum(calm)} of {len(others)}")


def ours_inside(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure5"):
        if {"uni", "vins"} <= found.keys():
            (low, high), (base_low, base_high) = (
                (found[name]["min"][-1], found[name]["max"][-1]) for name in ("vins", "uni")
            )
            said = f"VINS {low:.2g} to {high:.3g}, Uniform {base_low:.2g} to {base_high:.3g}"
            yield Finding(log, low >= base_low and high <= base_high, said)


def smallest_is_larger(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "figure6"):
        others = [name for name in found if name not in ("vins", "pop") and not METHODS[name].beyond]
        if "vins" in found and others:
            above = [name for name in others if found[name]["min"][-1] > found["vins"]["min"][-1]]
            said = "none is above" if not above else "above it: " + ", ".join(METHODS[name].label for name in above)
            yield Finding(log, not above, said)


def better_than_uniform(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "table2"):
        order = _samplers(found)
        if "uni" in order:
            better, others = order.index("uni"), len(order) - 1
            knn = _knn_above(found, "uni", counted=f": {better + 1} of {others + 1} with it")
            with_knn = 2 * (better + 1) > others + 1 if knn else None
            yield Finding(log, 2 * better > others, f"{better} of {others}{knn}", with_knn)


# --------------------------------------------------------------------------------------- Section 5: RQ2


def top_two(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "table2"):
        order = _samplers(found)
        if {"lfm-w", "vins"} <= set(order):
            said = ", ".join(METHODS[name].label for name in order[:3])
            knn = _knn_above(found, max("lfm-w", "vins", key=order.index))
            held = set(order[:2]) == {"lfm-w", "vins"}
            yield Finding(log, held, f"first three: {said}{knn}", held and not knn)


def against(other: str) -> Callable[[ResultsByExperiment], Iterator[Finding]]:
    """Whether VINS is better than another method, significantly."""

    def check(results: ResultsByExperiment) -> Iterator[Finding]:
        for log, found in found_logs(results, "table2"):
            name = found.get(other, other)
            gain = found["ours_against"].get(name)
            if gain is not None:
                value = gain["relative"]["ndcg@10"]
                said = f"{percent(value)} over {METHODS[name].label}, p {p_text(gain['p'])}"
                yield Finding(log, value > 0 and gain["p"] < SIGNIFICANT, said)

    return check


def first_sampler(order: str) -> Callable[[ResultsByExperiment], Iterator[Finding]]:
    """VINS first of the paper's samplers."""

    def check(results: ResultsByExperiment) -> Iterator[Finding]:
        for log, found in found_logs(results, "table2"):
            ranked = _samplers(found, order)
            if "vins" in ranked:
                place, said = _place(ranked)
                knn = _knn_above(found, "vins", order, f": place {place + 1} of {len(ranked) + 1} with it")
                yield Finding(log, place == 1, said + knn, place == 1 and not knn)

    return check


def first_of_all(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "table2"):
        if "vins" in found["order"]:
            place, said = _place(found["order"])
            yield Finding(log, place == 1, said)


def _place(ranked: Sequence[str]) -> tuple[int, str]:
    """VINS's, as a number and in words."""
    place = ranked.index("vins") + 1
    return place, f"place {place} of {len(ranked)}, first {METHODS[ranked[0]].label}"


# --------------------------------------------------------------------------------------- Section 5: RQ3
