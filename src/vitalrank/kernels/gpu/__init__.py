"""Kernels for the GPU, compiled by Triton: the names and arguments of ``kernels.cpu``, on tensors."""

from vitalrank.kernels.gpu.sampling.arrays import Counter, Proposal, Seen, new_counter, place_law, place_seen
from vitalrank.kernels.gpu.sampling.clustered import cluster, draw_clustered
from vitalrank.kernels.gpu.sampling.pools import draw_candidates, pick_by_rank, score, take, tell_drawn
from vitalrank.kernels.gpu.sampling.ranked import draw_ranked, pick_open_rank
from vitalrank.kernels.gpu.sampling.softmax import draw_softmax, score_all
from vitalrank.kernels.gpu.sampling.until import draw_until

__all__ = [
    "Counter",
    "Proposal",
    "Seen",
    "cluster",
    "draw_candidates",
    "draw_clustered",
    "draw_ranked",
    "draw_softmax",
    "draw_until",
    "new_counter",
    "pick_by_rank",
    "pick_open_rank",
    "place_law",
    "place_seen",
    "score",
    "score_all",
    "take",
    "tell_drawn",
]
