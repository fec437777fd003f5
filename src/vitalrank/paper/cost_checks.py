"""Checks of the paper's claims about time and tries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vitalrank.paper.checks import CLOSE, Finding, ResultsByExperiment, found_logs


def training_time(most: float) -> Callable[[ResultsByExperiment], Iterator[Finding]]:
    """Seconds of whole trainings, VINS over LFM-W: epochs of the runs of Table 2, an epoch as Table 4 timed it."""

    def check(results: ResultsByExperiment) -> Iterator[Finding]:
        for log, timed in found_logs(results, "table4"):
            rows = results.get("table2", {}).get("logs", {}).get(log, {}).get("rows", {})
            spent = [
                timed[name]["seconds"] * rows[name]["epochs"]["mean"]
                for name in ("vins", "lfm-w")
                if name in timed and rows.get(name, {}).get("epochs")
            ]
            if len(spent) == 2:
                yield Finding(log, spent[0] <= most * spent[1], f"{spent[0] / spent[1]:.2f}")

    return check


def fewer_tries(results: ResultsByExperiment) -> Iterator[Finding]:
    """Late in training; all epochs looked at are reported, since early ones may differ."""
    for log, found in found_logs(results, "table3"):
        shared = [epoch for epoch in found.get("vins", {}) if epoch in found.get("lfm-w", {})]
        pairs = [(found["vins"][epoch]["mean"], found["lfm-w"][epoch]["mean"]) for epoch in shared]
        if pairs:
            said = ", ".join(f"{ours:.1f} against {theirs:.1f}" for ours, theirs in pairs)
            yield Finding(log, pairs[-1][0] < pairs[-1][1], f"{said} at epochs {', '.join(shared)}")


def time_saved(least: float) -> Callable[[ResultsByExperiment], Iterator[Finding]]:
    def check(results: ResultsByExperiment) -> Iterator[Finding]:
        for log, found in found_logs(results, "table4"):
            if {"lfm-w", "vins"} <= found.keys():
                saved = 1 - found["vins"]["seconds"] / found["lfm-w"]["seconds"]
                yield Finding(log, saved >= least, f"{saved:.0%} of LFM-W's seconds saved")

    return check


def expensive(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "table4"):
        if "lfm-w" in found and found["lfm-w"]["relative"] is not None:
            times = found["lfm-w"]["relative"]
            yield Finding(log, times > 10, f"LFM-W takes {times:.1f} times Uniform's seconds")


def small_buffer(results: ResultsByExperiment) -> Iterator[Finding]:
    for log, found in found_logs(results, "table5"):
        reached = {}
        for name in ("vins", "lfm-w"):
            values = {int(size): cell["ndcg@10"]["mean"] for size, cell in found.get(name, {}).items()}
            if 64 in values and 1024 in values:
                reached[name] = values[64] / max(values.values())
        if len(reached) == 2:
            said = f"with 64 slots VINS reaches {reached['vins']:.1%} of its best, LFM-W {reached['lfm-w']:.1%}"
            yield Finding(log, reached["vins"] >= CLOSE > reached["lfm-w"], said)


def deep(quantity: str, held: Callable[[float], bool], word: str) -> Callable[[ResultsByExperiment], Iterator[Finding]]:
    """VINS over LFM-W with FPMC and MARank, as a ratio."""

    def check(results: ResultsByExperiment) -> Iterator[Finding]:
        shared = next(name for name in ("figure9", "figure8", "figure7") if name in results)  # all have the same data
        for log, found in found_logs(results, shared):
            ratios = {
                model: found[model]["vins"][quantity]["mean"] / found[model]["lfm-w"][quantity]["mean"]
                for model in ("fpmc", "marank")
                if {"lfm-w", "vins"} <= found.get(model, {}).keys()
            }
            if ratios:
                said = ", ".join(f"{model} {ratio:.2f}" for model, ratio in ratios.items())
                yield Finding(log, all(map(held, ratios.values())), f"VINS over LFM-W in {word}: {said}")

    return check
