"""The rule of sentence-transformers' ``mine_hard_negatives`` in plain Python, one query at a time."""

from __future__ import annotations


def mined(scores, positives, k, range_min=0, range_max=None, limits=None):
    """Negatives of one query by its scores of all items, a list, and its positives."""
    limits = limits or {}
    depth = range_max if range_max is not None else range_min + k * (10 if limits else 1)
    best = sorted(range(len(scores)), key=lambda item: (-scores[item], item))[: depth + len(positives)]
    lowest = min(scores[item] for item in positives)
    left = []
    for item in best:
        score = scores[item]
        if item in positives:
            continue
        if "absolute_margin" in limits and score + limits["absolute_margin"] > lowest:
            continue
        if "relative_margin" in limits and score > lowest - abs(lowest) * limits["relative_margin"]:
            continue
        if score > limits.get("max_score", float("inf")) or score < limits.get("min_score", float("-inf")):
            continue
        left.append(item)
    return left[:depth][range_min : range_min + k]
