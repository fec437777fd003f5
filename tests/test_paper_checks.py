"""Every claim's check: the least data for which it holds, and for which it does not."""

from __future__ import annotations

import pytest

from vitalrank.paper.claims import CLAIMS, STANDING

CHECKS = {claim.text: claim for claim in (*CLAIMS, *STANDING)}


def spread(mean, sd=0.01):
    return {"mean": mean, "sd": sd}


def curves(**ends):
    """Each method's smallest and largest imbalance value at the last epoch."""
    return {name: {"min": [low], "max": [high]} for name, (low, high) in ends.items()}


def standing(*order, **gains):
    """A log of Table 2, best first; what VINS gains, and p."""
    against = {name.replace("_", "-"): {"relative": {"ndcg@10": gain}, "p": p} for name, (gain, p) in gains.items()}
    return {"order": order, "order_on_valid": order, "best_baseline": "lfm-w", "ours_against": against}


def seconds(**taken):
    times = {name.replace("_", "-"): value for name, value in taken.items()}
    return {name: {"seconds": value, "relative": value / times.get("uni", 1.0)} for name, value in times.items()}


def tries(ours, theirs):
    return {"vins": {"5": spread(9), "150": spread(ours)}, "lfm-w": {"5": spread(1), "150": spread(theirs)}}


def buffers(ours, theirs):
    """NDCG@10 with 64 slots; 1 with 1024."""
    return {
        name: {"64": {"ndcg@10": spread(value)}, "1024": {"ndcg@10": spread(1.0)}}
        for name, value in (("vins", ours), ("lfm-w", theirs))
    }


def models(fpmc, marank):
    """VINS over LFM-W in whatever is looked at."""

    def samplers(ratio):
        both = {"vins": spread(ratio), "lfm-w": spread(1.0)}
        return {name: {"seconds": value, "ndcg@10": value} for name, value in both.items()}

    return {"fpmc": samplers(fpmc), "marank": samplers(marank)}


def ranks(psi, off):
    return {"psi": psi, "ranks_off": off, "rank": list(range(1, 1 + len(psi)))}


def norms(uni):
    return {"uni": {"norm_correlation": spread(uni)}}


def clusters(uni, vins):
    return {name: {"clustering": spread(value)} for name, value in (("uni", uni), ("vins", vins))}


def vanished(uni, vins):
    return {name: {"vanished": spread(value)} for name, value in (("uni", uni), ("vins", vins))}


UNIFORM = (0.1, 9.0)
CASES = [  # the claim's words, the experiment, what holds, what does not
    ("Theorem 1", "figure2", {"ordered": [1.0, 1.0]}, {"ordered": [1.0, 0.9]}),
    (
        "under-sample popular", "figure2",
        {"min": [0.1, 0.5], "max": [9.0, 2.0]}, {"min": [0.1, 0.05], "max": [9.0, 2.0]},
    ),
    ("larger norms", "figure3", norms(0.5), norms(0.005)),
    ("breaks this clustering", "figure3", clusters(0.6, 0.3), clusters(0.3, 0.6)),
    ("more gradients vanish", "figure3", vanished(0.6, 0.3), vanished(0.3, 0.3)),
    ("psi(r) of the estimated rank falls", "figure4", ranks([3.0, 1.0], [3, 2]), ranks([1.0, 3.0], [1, 6])),
    ("estimation error becomes smaller", "figure4", ranks([1.0, 2.0], [1.0, 4.0]), ranks([3.0, 2.0], [3.0, 4.0])),
    (
        "lower the largest and raise the smallest", "figure5",
        curves(uni=UNIFORM, dns=(0.2, 5.0), vins=(0.2, 5.0)), curves(uni=UNIFORM, dns=(0.05, 5.0), vins=(0.2, 5.0)),
    ),
    ("inside Uniform's range", "figure5", curves(uni=UNIFORM, vins=(0.2, 5)), curves(uni=UNIFORM, vins=(0.2, 10))),
    (
        "smallest imbalance value above all", "figure6",
        curves(vins=(0.3, 5), dns=(0.2, 5), pop=(0.9, 5)), curves(vins=(0.3, 5), dns=(0.4, 5)),
    ),
    ("better than Uniform", "table2", standing("vins", "dns", "uni"), standing("vins", "uni", "dns", "pop")),
    ("outperform all other", "table2", standing("lfm-w", "vins", "dns"), standing("vins", "dns", "lfm-w")),
    ("VINS is better than LFM-W (", "table2", standing(lfm_w=(0.1, 0.01)), standing(lfm_w=(0.1, 0.2))),
    ("LFM-W with WARP's weight", "table2", standing(lfm_w_harmonic=(0.1, 0.01)), standing(lfm_w_harmonic=(0.1, 0.2))),
    ("better than the best baseline", "table2", standing(lfm_w=(0.1, 0.01)), standing(lfm_w=(-0.1, 0.01))),
    ("better than DNS", "table2", standing(dns=(0.1, 0.01)), standing(dns=(-0.1, 0.01))),
    ("in fewer tries", "table3", tries(3, 5), tries(5, 3)),
    ("over ten times", "table4", seconds(uni=1, lfm_w=11), seconds(uni=1, lfm_w=9)),
    ("saves over 30 %", "table4", seconds(vins=0.6, lfm_w=1), seconds(vins=0.8, lfm_w=1)),
    ("A buffer of 64", "table5", buffers(0.995, 0.985), buffers(0.9, 0.8)),
    ("A buffer of 64", "table5", buffers(0.99, 0.9), buffers(0.995, 0.992)),
    ("saves at least half", "figure7", models(0.4, 0.5), models(0.4, 0.6)),
    ("MARank VINS recommends better", "figure9", models(1.1, 1.1), models(1.1, 0.9)),
    ("first of the paper's samplers on valid", "table2", standing("softmax", "vins", "dns"), standing("dns", "vins")),
    ("first of the paper's samplers on test", "table2", standing("softmax", "vins", "dns"), standing("dns", "vins")),
    ("first of all methods", "table2", standing("vins", "softmax"), standing("softmax", "vins")),
]  # fmt: skip


def with_knn(*order):
    """A log of Table 2 where Item-KNN takes part; 0.4 on test, 0.3 on valid."""
    row = {"metrics": {"ndcg@10": spread(0.4)}, "valid": spread(0.3)}
    return {**standing(*order), "rows": {"itemknn": row}}


def findings(words, results):
    (claim,) = (claim for text, claim in CHECKS.items() if words in text)
    found = claim.findings(results)
    return claim, None if found is None else [finding.held for finding in found]


@pytest.mark.parametrize(("words", "experiment", "holds", "fails"), CASES, ids=[case[0] for case in CASES])
def test_a_check_tells_what_holds_from_what_does_not(words, experiment, holds, fails):
    claim, held = findings(words, {experiment: {"logs": {"a": holds, "b": fails, "c": {}}}})
    assert claim.needs == experiment
    assert held == [True, False]


KNN_CASES = [  # the claim's words, the order, what is said, whether it holds and with Item-KNN
    (
        "first of the paper's samplers on valid", ("itemknn", "vins", "dns"),
        "place 1 of 2, first VINS (Item-KNN, no sampler, is above VINS with 0.3000: place 2 of 3 with it)", True, False,
    ),
    (
        "first of the paper's samplers on test", ("itemknn", "vins", "dns"),
        "place 1 of 2, first VINS (Item-KNN, no sampler, is above VINS with 0.4000: place 2 of 3 with it)", True, False,
    ),
    ("first of the paper's samplers on test", ("vins", "itemknn", "dns"), "place 1 of 2, first VINS", True, True),
    ("first of all methods", ("itemknn", "vins"), "place 2 of 2, first Item-KNN", False, None),
    (
        "outperform all other", ("vins", "itemknn", "lfm-w", "dns"),
        "first three: VINS, LFM-W, DNS (Item-KNN, no sampler, is above LFM-W with 0.4000)", True, False,
    ),
    ("outperform all other", ("vins", "lfm-w", "itemknn"), "first three: VINS, LFM-W", True, True),
    (
        "better than Uniform", ("itemknn", "vins", "uni", "dns"),
        "1 of 2 (Item-KNN, no sampler, is above Uni with 0.4000: 2 of 3 with it)", False, True,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "order", "said", "held", "counted"), KNN_CASES)
def test_item_knn_is_no_sampler_and_is_told_where_it_is_above(words, order, said, held, counted):
    (claim,) = (claim for text, claim in CHECKS.items() if words in text)
    (found,) = claim.findings({"table2": {"logs": {"a": with_knn(*order)}}})
    assert (found.said, found.held, found.with_knn) == (said, held, counted)


def test_the_time_of_a_whole_training_is_epochs_times_seconds():
    epochs = {"a": 60, "b": 70}  # of VINS; LFM-W's are 100
    runs = {log: {"vins": {"epochs": spread(ours)}, "lfm-w": {"epochs": spread(100)}} for log, ours in epochs.items()}
    table2 = {log: {"rows": rows} for log, rows in runs.items()}
    table4 = {log: seconds(vins=1, lfm_w=1) for log in epochs}
    results = {"table2": {"logs": table2}, "table4": {"logs": table4}}
    assert findings("0.65 of LFM-W's time", results)[1] == [True, False]


def test_no_claim_is_left_out():
    checked = {findings(words, {})[0].text for words, *_ in CASES}
    assert CHECKS.keys() - checked == {"VINS trains in at most 0.65 of LFM-W's time, over whole runs."}
