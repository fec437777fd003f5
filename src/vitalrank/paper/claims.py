"""The paper's claims, each with the check that tells from the data whether it held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vitalrank.paper import checks, cost_checks
from vitalrank.paper.checks import Finding, ResultsByExperiment


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, where it stands, and how it is checked."""

    section: str
    text: str
    needs: str  # the experiment
    check: Callable[[ResultsByExperiment], Iterator[Finding]]

    def findings(self, results: ResultsByExperiment) -> list[Finding] | None:
        """The finding for each log; None if the experiment was not run."""
        return list(self.check(results)) or None if self.needs in results else None


def verdict(findings: list[Finding] | None) -> str:
    """The verdict in one word.

    Examples
    --------
    >>> verdict([Finding("a", True, ""), Finding("b", False, "")]), verdict(None)
    ('partly', 'not run')
    """
    if findings is None:
        return "not run"
    held = sum(finding.held for finding in findings)
    return "held" if held == len(findings) else "partly" if held else "did not hold"


def tally(findings: list[Finding]) -> str:
    """On how many logs it held; with Item-KNN among the samplers too, where that differs.

    Examples
    --------
    >>> tally([Finding("a", True, "", with_knn=False), Finding("b", True, "")])
    '2 of 2 (1 with Item-KNN)'
    """
    held = sum(finding.held for finding in findings)
    with_knn = sum(finding.held if finding.with_knn is None else finding.with_knn for finding in findings)
    return f"{held} of {len(findings)}" + ("" if held == with_knn else f" ({with_knn} with Item-KNN)")


CLAIMS = (
    Claim(
        "3.1", "Theorem 1: with static sampling the imbalance value grows with the degree.", "figure2", checks.theorem1
    ),
    Claim(
        "3.1",
        "Uniform negatives under-sample popular items and over-sample rare ones; a larger beta evens it out.",
        "figure2",
        checks.under_sampled,
    ),
    Claim("3.2", "With Uniform, more popular items have larger norms.", "figure3", checks.norms),
    Claim(
        "3.2", "With Uniform items of like frequency gather; VINS breaks this clustering.", "figure3", checks.clustering
    ),
    Claim("3.2", "With Uniform more gradients vanish than with VINS.", "figure3", checks.vanishing),
    Claim("4.3", "The bias ratio psi(r) of the estimated rank falls with r.", "figure4", checks.psi_falls),
    Claim(
        "4.3", "As an item ranks higher, the estimation error becomes smaller.", "figure4", checks.error_of_high_ranks
    ),
    Claim(
        "5.2",
        "Most samplers lower the largest and raise the smallest imbalance value of Uniform.",
        "figure5",
        checks.calmer,
    ),
    Claim("5.2", "VINS keeps the imbalance values inside Uniform's range.", "figure5", checks.ours_inside),
    Claim(
        "5.2",
        "VINS keeps the smallest imbalance value above all others' but POP's.",
        "figure6",
        checks.smallest_is_larger,
    ),
    Claim("5.2", "Most samplers recommend better than Uniform.", "table2", checks.better_than_uniform),
    Claim("5.3", "LFM-W and VINS outperform all other samplers (NDCG@10).", "table2", checks.top_two),
    Claim("5.3", "VINS is better than LFM-W (paper: 2 to 10 %).", "table2", checks.against("lfm-w")),
    Claim(
        "5.3",
        "VINS is better than LFM-W with WARP's weight, as published.",
        "table2",
        checks.against("lfm-w-harmonic"),
    ),
    Claim(
        "5.3", "VINS is better than the best baseline (paper: 2 to 10 %).", "table2", checks.against("best_baseline")
    ),
    Claim(
        "5.3",
        "VINS is better than DNS (paper: 8 to 18 %, DNS with 10 or 20 candidates).",
        "table2",
        checks.against("dns"),
    ),
    Claim(
        "5.3", "Late in training VINS finds a violator in fewer tries than LFM-W.", "table3", cost_checks.fewer_tries
    ),
    Claim("5.3", "LFM-W needs over ten times the time of static sampling.", "table4", cost_checks.expensive),
    Claim("abstract, 5.3", "VINS saves over 30 % of LFM-W's training time.", "table4", cost_checks.time_saved(0.3)),
    Claim("5.3", "A buffer of 64 is enough for VINS and not for LFM-W.", "table5", cost_checks.small_buffer),
    Claim(
        "5.4",
        "With FPMC and MARank VINS saves at least half of LFM-W's time.",
        "figure7",
        cost_checks.deep("seconds", lambda ratio: ratio <= 0.5, "seconds"),
    ),
    Claim(
        "5.4",
        "With FPMC and MARank VINS recommends better than LFM-W.",
        "figure9",
        cost_checks.deep("ndcg@10", lambda ratio: ratio > 1, "NDCG@10"),
    ),
)

# Not the paper's: where VINS stands among all that were tuned here.
STANDING = (
    Claim("", "VINS is first of the paper's samplers on valid.", "table2", checks.first_sampler("order_on_valid")),
    Claim("", "VINS is first of the paper's samplers on test.", "table2", checks.first_sampler("order")),
    Claim("", "VINS is first of all methods on test, later ones included.", "table2", checks.first_of_all),
    Claim(
        "", "VINS trains in at most 0.65 of LFM-W's time, over whole runs.", "table4", cost_checks.training_time(0.65)
    ),
)
