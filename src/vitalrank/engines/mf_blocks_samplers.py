"""Mode blocks: one sampler for each block of items."""

from __future__ import annotations

from collections.abc import Iterable

from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.samplers import BoundSampler, Sampler
from vitalrank.samplers.settings import BindableSampler


class BlockSamplers:
    """Binds a sampler to blocks as they come; ranks that it estimates are ranks among the items of all blocks."""

    def __init__(self, sampler: BindableSampler, blocks: int, seed: int) -> None:
        if not isinstance(sampler, Sampler):
            raise SettingError(
                f"blocks needs one of vitalrank's samplers, to bind it to each block; {type(sampler).__name__} is none."
            )
        self._sampler, self._blocks, self._seed = sampler, blocks, seed
        self._bound: dict[int, BoundSampler] = {}

    def bound_to(self, block: int, log: Interactions) -> BoundSampler:
        """The sampler of a block, whose items are those of ``log``."""
        if block not in self._bound:
            bound = self._sampler.bind(log, seed=self._seed)
            if not bound.fits_blocks:
                raise SettingError(
                    f"blocks does not go with {self._sampler!r}: a positive's negatives come from its own block, and "
                    "known negatives lie in any; leave blocks out, or take another sampler."
                )
            bound.use_blocks(self._blocks)
            self._bound[block] = bound
        return self._bound[block]

    def keep(self, blocks: Iterable[int] = ()) -> None:
        """Let go of those of other blocks."""
        self._bound = {block: self._bound[block] for block in blocks if block in self._bound}
