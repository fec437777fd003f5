"""The mixture of two samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vitalrank import registry
from vitalrank._util.checks import is_number, to_builtin_scalars
from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels.rng import CHOICE
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.settings import Sampler

_LEAST = 1e-300  # of a density that is 0, for its log


def _named(name: str) -> type[Sampler]:
    given = registry.GIVEN_SAMPLERS
    found: type[Sampler] = (given[name] if name in given else registry.SAMPLERS.find(name)).load()
    return found


@dataclass(frozen=True)
class Mixed(Sampler):
    """Each negative from ``a`` with probability ``share``, else from ``b``: ``q = share q_a + (1 - share) q_b``.

    Where one of the two has no negative for a positive, the other's is taken. ``log_q`` is the mixture's, if both
    have a density.

    Read the plain definition first: ``tests/reference/mixed.py``.

    Parameters
    ----------
    a, b
        Samplers, or their names; each gives k negatives, so neither may keep all its candidates, as SA and PRIS do.
    share
        Probability of ``a``, from 0 to 1.

    References
    ----------
    Yang, Yi, Cheng, Hong, Li, Wang, Xu and Chi, "Mixed negative sampling for learning two-tower neural networks in
    recommendations", WWW 2020 companion.

    Examples
    --------
    >>> import numpy as np, vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1, 2], [0, 1, 2, 2])
    >>> draw = vr.Mixed("uni", vr.Popularity(1.0), share=0.5).bind(log, seed=0)(users=[0], positives=[0], k=4)
    >>> expected = {1: 0.5 / 2 + 0.5 / 3, 2: 0.5 / 2 + 0.5 * 2 / 3}
    >>> bool(np.allclose(np.exp(draw.log_q), [[expected[item] for item in draw.ids[0].tolist()]]))
    True
    """

    a: str | Sampler = "uni"
    b: str | Sampler = "pop"
    share: float = 0.5

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        if not (is_number(self.share) and 0.0 <= self.share <= 1.0):
            raise SettingError(f"share is {self.share!r}; it must be from 0 (b alone) to 1 (a alone).")
        for name in ("a", "b"):
            self.part(name)

    def part(self, name: str) -> Sampler:
        """The sampler ``a`` or ``b``."""
        given: Any = getattr(self, name)
        made = _named(given)() if isinstance(given, str) else given
        if not isinstance(made, Sampler):
            raise SettingError(f"{name} is {given!r}; give a sampler or the name of one.")
        return made

    def _bound(self) -> type[BoundSampler]:
        return BoundMixed


class BoundMixed(BoundSampler):
    """Draws from both, and keeps one of the two for each negative."""

    settings: Mixed

    def __init__(
        self,
        settings: Mixed,
        train: Interactions,
        seed: int,
        allowed: ArrayLike | None,
        threads: int | None,
        count: bool,
    ) -> None:
        super().__init__(settings, train, seed, allowed, threads, count)
        self._parts = [settings.part(name).bind(train, seed, allowed=allowed, threads=threads) for name in ("a", "b")]
        for name, part in zip(("a", "b"), self._parts, strict=True):
            if part.keeps_candidates:
                raise SettingError(f"{name} is {part.settings!r}, which keeps all its candidates; mix samplers of k.")
        self.needs_scores = any(part.needs_scores for part in self._parts)
        self.needs_refresh = any(part.needs_refresh for part in self._parts)
        self.follows_batch = any(part.follows_batch for part in self._parts)
        self.graph_capturable = all(part.graph_capturable for part in self._parts)
        self.fits_blocks = all(part.fits_blocks for part in self._parts)

    def use_blocks(self, blocks: int) -> None:
        for part in self._parts:
            part.use_blocks(blocks)

    def keep_to_available(self) -> None:
        super().keep_to_available()
        for part in self._parts:
            part.keep_to_available()

    def reset(self) -> None:
        for part in self._parts:
            part.reset()

    def refresh(
        self, backend: ArrayBackend, table: DeviceArray, step: int, draws: int, *, check_finite: bool = False
    ) -> None:
        for part in self._parts:
            part.refresh(backend, table, step, draws, check_finite=check_finite)

    def _draw(self, request: SampleRequest) -> Draw:
        backend, xp = request.backend, request.backend.xp
        a, b = (part._draw(request) for part in self._parts)
        units = backend.empty((len(request), request.k), np.float64)
        backend.kernels.draw_units(request.counter, CHOICE, units)
        first = (a.ids >= 0) & ((units < self.settings.share) | (b.ids < 0))  # (B, k)
        ids = xp.where(first, a.ids, b.ids)
        mix = None
        if a.mix is not None or b.mix is not None:
            mix = backend.cast(xp.where(first, *(0.0 if x.mix is None else x.mix for x in (a, b))), np.float32)
        log_q = None
        if request.with_log_q:
            both = (a.ids >= 0) & (b.ids >= 0)  # else one of the two is sure
            log_q = self._mixture(request, ids, xp.where(both, self.settings.share, (a.ids >= 0) * 1.0))
        return Draw(ids, xp.where(first, a.weights, b.weights), a.tries + b.tries, log_q, mix=mix)

    def log_density(self, request: SampleRequest, ids: DeviceArray) -> DeviceArray | None:
        return self._mixture(request, ids, self.settings.share)

    def _mixture(self, request: SampleRequest, ids: DeviceArray, share: DeviceArray | float) -> DeviceArray | None:
        """Log density of the mixture; None where a part has none."""  # (B, k)
        backend, xp = request.backend, request.backend.xp
        logs = [part.log_density(request, ids) for part in self._parts]
        if any(log is None for log in logs):
            return None
        of_a, of_b = (xp.exp(backend.cast(log, np.float64)) for log in logs)
        density = (share * of_a + (1 - share) * of_b).clip(_LEAST)
        log_q: DeviceArray = backend.cast(xp.where(ids >= 0, xp.log(density), 0.0), np.float32)
        return log_q
