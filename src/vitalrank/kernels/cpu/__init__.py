"""Kernels for the CPU, compiled by Numba."""

from vitalrank.kernels.cpu.sampling.candidates import (
    draw_candidates,
    draw_units,
    drop_seen,
    pick_by_rank,
    sample_each,
    score,
)
from vitalrank.kernels.cpu.sampling.clustered import cluster, draw_clustered
from vitalrank.kernels.cpu.sampling.draw_until import advance_search, draw_until
from vitalrank.kernels.cpu.sampling.fallback import proposal_mass
from vitalrank.kernels.cpu.sampling.ranked import draw_ranked, pick_unseen_rank, ranked_mass
from vitalrank.kernels.cpu.sampling.softmax import draw_softmax, score_all

__all__ = [
    "advance_search",
    "cluster",
    "draw_candidates",
    "draw_clustered",
    "draw_ranked",
    "draw_softmax",
    "draw_units",
    "draw_until",
    "drop_seen",
    "pick_by_rank",
    "pick_unseen_rank",
    "proposal_mass",
    "ranked_mass",
    "sample_each",
    "score",
    "score_all",
]
