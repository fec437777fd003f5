"""Kernels for the GPU, compiled by Triton: the names and arguments of ``kernels.cpu``, on tensors.

``gather`` and ``unit_weights`` have no twin there, where NumPy does it.
"""

from vitalrank.kernels.gpu.sampling.arrays import (
    Counter,
    Proposal,
    Seen,
    new_counter,
    proposal_to_device,
    seen_to_device,
)
from vitalrank.kernels.gpu.sampling.candidates import draw_candidates, draw_units
from vitalrank.kernels.gpu.sampling.clustered import cluster, draw_clustered
from vitalrank.kernels.gpu.sampling.draw_until import draw_until
from vitalrank.kernels.gpu.sampling.ranked import draw_ranked, pick_unseen_rank
from vitalrank.kernels.gpu.sampling.scoring import gather, pick_by_rank, score, unit_weights
from vitalrank.kernels.gpu.sampling.seen import drop_seen
from vitalrank.kernels.gpu.sampling.softmax import draw_softmax, score_all

__all__ = [
    "Counter",
    "Proposal",
    "Seen",
    "cluster",
    "draw_candidates",
    "draw_clustered",
    "draw_ranked",
    "draw_softmax",
    "draw_units",
    "draw_until",
    "drop_seen",
    "gather",
    "new_counter",
    "pick_by_rank",
    "pick_unseen_rank",
    "proposal_to_device",
    "score",
    "score_all",
    "seen_to_device",
    "unit_weights",
]
