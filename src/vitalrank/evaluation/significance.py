"""Confidence intervals of averages over users, and paired tests between two models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Values
from vitalrank.errors import DataError, SettingError

if TYPE_CHECKING:
    from vitalrank.evaluation.results import Evaluation

_CELLS = 8_000_000  # random numbers held at a time


@dataclass(frozen=True)
class Comparison:
    """Outcome of a paired test: ``difference`` is a minus b, with its confidence interval ``low..high``."""

    metric: str
    a: float
    b: float
    difference: float
    p_value: float
    low: float
    high: float
    users: int
    test: str

    def __repr__(self) -> str:
        return (
            f"{self.metric}: {self.a:.4f} against {self.b:.4f}, difference {self.difference:+.4f} "
            f"[{self.low:+.4f}, {self.high:+.4f}], p = {self.p_value:.2g} ({self.test}, {self.users} users)"
        )


def significance(
    a: Evaluation,
    b: Evaluation,
    metric: str = "ndcg@10",
    *,
    test: str = "t",
    level: float = 0.95,
    rounds: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Test whether two models differ on the same test users (two-sided, paired by user).

    Parameters
    ----------
    a, b
        Results of ``evaluate`` with the same test log.
    metric
        Any per-user metric of both, such as ``"ndcg@10"``. For ``f1`` the per-user values are compared.
    test
        ``"t"``: paired t-test. ``"sign-flip"``: randomisation test; under the null hypothesis each user's
        difference is as likely to have the opposite sign, ``p = (1 + flips at least as far from 0) / (1 + rounds)``.
    level
        Of the confidence interval of the mean difference (Student's t in both cases).
    rounds, seed
        Of the sign-flip test.

    References
    ----------
    Smucker, Allan and Carterette, "A comparison of statistical significance tests for information retrieval
    evaluation", CIKM 2007.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 1, 2, 2, 2, 3, 3, 3], [1, 2, 3, 1, 2, 4, 1, 3, 2])
    >>> train, test = log.split_last(0.2)
    >>> a = vr.evaluate(vr.ItemKNN().fit(train), test, at=1)
    >>> vr.significance(a, a, "ndcg@1").p_value
    1.0
    """
    if test not in TESTS:
        raise SettingError(f"test={test!r}: choose one of {', '.join(TESTS)}.")
    for given in (a, b):
        if not hasattr(given, "per_user"):
            raise SettingError(f"{type(given).__name__} is no result; give what vr.evaluate(model, test) returned.")
    if not np.array_equal(a.users, b.users) or not np.array_equal(a.relevant, b.relevant):
        raise DataError("the two results are of different test users or items; evaluate both on the same test log.")
    for result in (a, b):
        if metric not in result.per_user:
            raise SettingError(f"metric={metric!r}: choose one of {', '.join(result.per_user)}.")
    from scipy.stats import t  # slow to import

    difference = a.per_user[metric] - b.per_user[metric]  # (U,)
    if len(difference) < 2:
        raise DataError(f"{len(difference)} test user: a paired test needs at least two.")
    mean = float(difference.mean())
    error = float(difference.std(ddof=1)) / np.sqrt(len(difference))
    reach = float(t.ppf((1 + level) / 2, len(difference) - 1)) * error
    p_value = TESTS[test](difference, rounds, seed)
    values = float(a.per_user[metric].mean()), float(b.per_user[metric].mean())
    return Comparison(metric, *values, mean, p_value, mean - reach, mean + reach, len(difference), test)


def compare(a: Evaluation, b: Evaluation, metric: str = "ndcg@10", **options: Any) -> Comparison:
    """The former name of :func:`significance`."""
    warnings.warn(
        "compare(result, result) is now vr.significance; the old name goes with the next release.",
        DeprecationWarning,
        stacklevel=2,
    )
    return significance(a, b, metric, **options)


def _t_test(difference: Values, rounds: int, seed: int) -> float:
    from scipy.stats import ttest_1samp

    if np.ptp(difference) == 0:  # it would divide by the spread
        return float(difference[0] == 0)
    return float(ttest_1samp(difference, 0.0).pvalue)


def _sign_flip_test(difference: Values, rounds: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    moving = difference[difference != 0]  # a zero has no sign to flip
    bound = abs(moving.sum()) * (1 - 1e-12)  # rounding must not make an equal sum smaller
    block = max(1, _CELLS // max(1, len(moving)))
    far = 0
    for start in range(0, rounds, block):
        shape = min(block, rounds - start), len(moving)
        signs = rng.integers(0, 2, shape, np.int8).astype(np.float32) * 2 - 1
        far += int(np.count_nonzero(np.abs(signs @ moving) >= bound))
    return (1 + far) / (1 + rounds)


TESTS: dict[str, Callable[[Values, int, int], float]] = {"t": _t_test, "sign-flip": _sign_flip_test}


def resampled_means(values: Values, rounds: int, seed: int) -> Values:
    """Column means of ``values`` (U, M) over users drawn with replacement, once per round.

    Examples
    --------
    >>> resampled_means(np.ones((5, 2)), rounds=3, seed=0).tolist()
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    rng = np.random.default_rng(seed)
    users = len(values)
    means = np.empty((rounds, values.shape[1]))
    for number in range(rounds):
        times_drawn = np.bincount(rng.integers(0, users, users), minlength=users)
        means[number] = times_drawn @ values / users
    return means


def percentile_interval(samples: NDArray[np.float64], level: float = 0.95) -> tuple[float, float]:
    """The middle ``level`` of the samples.

    Examples
    --------
    >>> percentile_interval(np.arange(101), level=0.5)
    (25.0, 75.0)
    """
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
