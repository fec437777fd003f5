"""Kernels for the CPU, compiled by Numba."""

import vitalrank.kernels.compiling  # noqa: F401  (before any kernel)
from vitalrank.kernels.cpu.sampling.clustered import cluster, draw_clustered
from vitalrank.kernels.cpu.sampling.pools import draw_candidates, pick_by_rank, reject_each, score
from vitalrank.kernels.cpu.sampling.proposing import proposal_mass
from vitalrank.kernels.cpu.sampling.ranked import draw_ranked, pick_open_rank, ranked_mass
from vitalrank.kernels.cpu.sampling.softmax import draw_softmax, score_all
from vitalrank.kernels.cpu.sampling.until import advance, draw_until

__all__ = [
    "advance",
    "cluster",
    "draw_candidates",
    "draw_clustered",
    "draw_ranked",
    "draw_softmax",
    "draw_until",
    "pick_by_rank",
    "pick_open_rank",
    "proposal_mass",
    "ranked_mass",
    "reject_each",
    "score",
    "score_all",
]
