"""What the item vectors say of popularity: norms, clusters of equal frequency, their projection to the plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from vitalrank.analysis.subsampling import some
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models.dot import DotRecommender

CLASSES = ("top 25 %", "middle", "bottom 25 %")
METHODS = ("auto", "tsne", "pca")
_CELLS = 4_000_000  # distances held at a time


@dataclass(frozen=True)
class Norms:
    """Length of each item's vector against its degree."""

    degree: NDArray[np.int64]  # (I,)
    norm: NDArray[np.float64]  # (I,)
    correlation: float  # Spearman's; 0 where one side is constant


@dataclass(frozen=True)
class Clustering:
    """How well an item's neighbours predict its degree class: ``score`` is 0 by chance and 1 without a mistake."""

    accuracy: float  # mean over the three classes of the share predicted right
    chance: float
    score: float
    neighbours: int
    items: int


@dataclass(frozen=True)
class Projection:
    """Items as points in the plane, with their degree, norm and class (0 top, 1 middle, 2 bottom)."""

    items: NDArray[np.int64]  # (n,) internal ids
    points: NDArray[np.float64]  # (n, 2)
    degree: NDArray[np.int64]  # (n,)
    norm: NDArray[np.float64]  # (n,) of the vectors themselves
    degree_class: NDArray[np.int8]  # (n,)
    method: str  # "t-SNE" or "PCA"


def degree_class(train: Interactions) -> NDArray[np.int8]:
    """0, 1 or 2 for each item: a quarter of the items with the highest degrees, the middle, the lowest quarter.

    Equal degrees: lower internal id first.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 2, 3, 1, 2, 1, 2, 1], list("aaabbccd"))
    >>> degree_class(log).tolist()
    [0, 1, 1, 2]
    """
    order = np.argsort(-train.item_degree, kind="stable")
    quarter = len(order) // 4
    band = np.ones(len(order), np.int8)
    band[order[:quarter]] = 0
    band[order[len(order) - quarter :]] = 2
    return band


def item_norms(model: DotRecommender) -> Norms:
    """Norm of each item's vector, its degree, and Spearman's rank correlation of the two.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.MF(dim=8).fit(log, vr.Popularity(beta=1.0), epochs=20, progress=False)
    >>> item_norms(model).correlation > 0.2
    True
    """
    norm = np.linalg.norm(_vectors(model).astype(np.float64), axis=1)  # (I,)
    degree = model.train.item_degree
    varies = len(norm) > 1 and np.ptp(norm) > 0 and np.ptp(degree) > 0
    return Norms(degree, norm, float(spearmanr(degree, norm).statistic) if varies else 0.0)


def frequency_clustering(
    model: DotRecommender, neighbours: int = 10, sample: int | None = 2000, seed: int = 0
) -> Clustering:
    """Tell each item's degree class from its nearest neighbours by distance, and count how often that is right.

    The class with the most neighbours for its size wins. The accuracy is the mean over the three classes, so that
    guessing reaches a third.

    Parameters
    ----------
    model
        Any dot-product model.
    neighbours
        How many vote.
    sample, seed
        Items to ask about, drawn at random if there are more; None asks about all. All items vote.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=100, items=80, interactions=2000, seed=0)
    >>> model = vr.MF(dim=8).fit(log, vr.Uniform(), epochs=20, progress=False)
    >>> frequency_clustering(model, neighbours=3).score > 0.2
    True
    """
    vectors, band = _vectors(model), degree_class(model.train)
    size = np.bincount(band, minlength=3)
    if neighbours < 1 or neighbours >= len(band) or not size.all():
        raise SettingError(f"{len(band)} items: too few to look at {neighbours} neighbours in three classes.")
    asked = some(len(band), sample, seed)
    near = _nearest(vectors, asked, neighbours)  # (n, k)
    votes = np.stack([np.count_nonzero(band[near] == c, axis=1) for c in range(3)], axis=1)  # (n, 3)
    predicted = (votes / size).argmax(axis=1)
    right = [float(np.mean(predicted[band[asked] == c] == c)) for c in range(3) if (band[asked] == c).any()]
    accuracy = float(np.mean(right))
    return Clustering(accuracy, 1 / 3, (accuracy - 1 / 3) * 1.5, neighbours, len(asked))


def project(model: DotRecommender, sample: int = 600, seed: int = 0, method: str = "auto") -> Projection:
    """Project the item vectors to the plane.

    Parameters
    ----------
    model
        Any dot-product model.
    sample, seed
        Items to show, drawn at random if there are more.
    method
        ``"tsne"`` (needs scikit-learn), ``"pca"``, or ``"auto"``: the first if it can be had.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.MF(dim=8).fit(log, vr.Uniform(), epochs=2, progress=False)
    >>> project(model, sample=30, method="pca").points.shape
    (30, 2)
    """
    if method not in METHODS:
        raise SettingError(f"method={method!r}: choose one of {', '.join(METHODS)}.")
    shown = some(model.train.n_items, sample, seed)
    vectors = _vectors(model)[shown].astype(np.float64)
    tsne = None if method == "pca" or len(shown) < 8 else _tsne()
    if method == "tsne" and tsne is None:
        raise SettingError("t-SNE needs scikit-learn and at least 8 items: pip install scikit-learn, or method='pca'.")
    points = _plane(vectors) if tsne is None else tsne(vectors, seed)
    band = degree_class(model.train)[shown]
    degree, norm = model.train.item_degree[shown], np.linalg.norm(vectors, axis=1)
    return Projection(shown, points, degree, norm, band, "PCA" if tsne is None else "t-SNE")


def _nearest(vectors: NDArray[np.float32], asked: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The ``count`` closest other rows of each row asked about, in any order."""
    half = np.einsum("ij,ij->i", vectors, vectors) / 2
    near = np.empty((len(asked), count), np.int64)
    block = max(1, _CELLS // len(vectors))
    for start in range(0, len(asked), block):
        rows = asked[start : start + block]
        far = half - vectors[rows] @ vectors.T  # orders as the distance does
        far[np.arange(len(rows)), rows] = np.inf
        near[start : start + block] = np.argpartition(far, count - 1, axis=1)[:, :count]
    return near


def _plane(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The two directions in which the vectors differ most; signs fixed, so that a projection can be repeated."""
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    for column, axis in enumerate(axes[:2]):
        points[:, column] = centred @ axis * np.sign(axis[np.abs(axis).argmax()])
    return points


def _tsne() -> Callable[[NDArray[np.float64], int], NDArray[np.float64]] | None:
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError:
        return None

    def project(vectors: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
        near = min(30.0, (len(vectors) - 1) / 3)
        tsne = TSNE(2, perplexity=near, init="pca", random_state=seed % 2**32)
        with threadpool_limits(1):  # its threads wait for each other: where cores are shared, ten times as long
            return np.asarray(tsne.fit_transform(vectors), np.float64)

    return project


def _vectors(model: DotRecommender) -> NDArray[np.float32]:
    if not (isinstance(model, DotRecommender) and model.has_vectors):
        raise SettingError(f"{type(model).__name__} has no item vectors; ask a dot-product model such as MF.")
    return model.item_table[:, : model.item_table.shape[1] - model.constant_columns]  # (I, d)
