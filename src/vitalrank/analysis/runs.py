"""Everything the analysis says of one trained model, in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vitalrank.analysis.advising import advice
from vitalrank.analysis.embeddings import Clustering, frequency_clustering, item_norms
from vitalrank.analysis.exposures import Exposure, exposure
from vitalrank.analysis.imbalance import imbalance, summary
from vitalrank.interactions import Interactions
from vitalrank.models.base import Recommender
from vitalrank.models.dot import DotRecommender

_VOTERS = 10  # neighbours that predict a degree class
_BETAS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Inspection:
    """The numbers of one model; what a model cannot have is None."""

    epochs: int
    imbalance_by_beta: dict[float, dict[str, float]]  # by the formula, for draws by degree ** beta
    imbalance_counted: dict[str, float] | None  # in the last epoch, where it was counted
    tries: float | None  # in the last epoch
    unviolated: float | None
    vanished: float | None
    norm_correlation: float | None
    clustering: Clustering | None
    exposure: Exposure
    advice: list[str]

    def to_dict(self) -> dict[str, Any]:
        """As plain values that JSON can hold."""
        plain = asdict(self)
        plain["imbalance_by_beta"] = {str(beta): values for beta, values in self.imbalance_by_beta.items()}
        return plain


def inspect_model(
    model: Recommender,
    n: int = 10,
    *,
    exclude: Sequence[Interactions] = (),
    sample: int | None = 20_000,
    seed: int = 0,
    threads: int | None = None,
) -> Inspection:
    """Look at a fitted model from all sides.

    Parameters
    ----------
    model
        A fitted model; without item vectors or a history it has fewer numbers.
    n, exclude
        Length of the lists, and more logs to leave out of them.
    sample, seed
        Most users to make lists for, drawn at random; None takes all.
    threads
        At most so many threads.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> found = inspect_model(vr.MF(dim=8).fit(log, vr.Uniform(), epochs=3, progress=False))
    >>> found.epochs, found.tries
    (3, 1.0)
    """
    history = model.history
    last = history[-1] if history else {}
    voters = min(_VOTERS, max(1, model.train.n_items // 10))
    clustering = None
    dot = model if isinstance(model, DotRecommender) and model.has_vectors else None
    if dot is not None and dot.train.n_items >= 8:
        clustering = frequency_clustering(dot, voters, seed=seed)
    shown = exposure(model, n, exclude=exclude, sample=sample, seed=seed, threads=threads)
    met = model.train.item_degree > 0
    return Inspection(
        epochs=len(history),
        imbalance_by_beta={beta: summary(imbalance(model.train, beta)[met]) for beta in _BETAS},
        imbalance_counted=last.get("imbalance"),
        tries=last.get("tries"),
        unviolated=last.get("unviolated"),
        vanished=last.get("vanished"),
        norm_correlation=None if dot is None else item_norms(dot).correlation,
        clustering=clustering,
        exposure=shown,
        advice=advice(history, exposure=shown, clustering=clustering) if history else [],
    )
