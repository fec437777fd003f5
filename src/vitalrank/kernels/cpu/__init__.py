"""Kernels for the CPU, compiled by Numba."""

import vitalrank.kernels.compiling  # noqa: F401  (before any kernel)
from vitalrank.kernels.cpu.clustered import cluster, draw_clustered
from vitalrank.kernels.cpu.draws import draw_candidates, pick_by_rank, reject_each, score
from vitalrank.kernels.cpu.proposing import law_mass
from vitalrank.kernels.cpu.ranked import draw_ranked, pick_open_rank, ranked_mass
from vitalrank.kernels.cpu.softmax import draw_softmax, score_all
from vitalrank.kernels.cpu.until import advance, draw_until

__all__ = [
    "advance",
    "cluster",
    "draw_candidates",
    "draw_clustered",
    "draw_ranked",
    "draw_softmax",
    "draw_until",
    "law_mass",
    "pick_by_rank",
    "pick_open_rank",
    "ranked_mass",
    "reject_each",
    "score",
    "score_all",
]
