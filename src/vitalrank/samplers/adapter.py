"""The adapter for bound samplers of a caller's own: what they do not define has a safe default."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.counting import Counts
from vitalrank.samplers.draws import Draw
from vitalrank.samplers.settings import CallableSampler


class SamplerAdapter:
    """Gives a bound sampler of the caller's own the interface of :class:`BoundSampler`.

    It must be callable as one; ``reset``, ``needs_scores``, ``differentiable_weights`` with ``logits``, ``seed`` and
    ``counts`` are used where it has them. It is never captured in a CUDA graph, whose replay would not call it.

    Examples
    --------
    >>> SamplerAdapter(lambda **call: None, seed=3, n_items=9).needs_scores
    True
    """

    graph_capturable = False
    needs_refresh = False
    weighs_by_score = False

    def __init__(self, sampler: CallableSampler, seed: int, n_items: int) -> None:
        self._sampler: Any = sampler
        self._n_items = n_items
        self.seed = getattr(sampler, "seed", seed)
        self.needs_scores = bool(getattr(sampler, "needs_scores", True))
        self.differentiable_weights = bool(getattr(sampler, "differentiable_weights", False))
        self.has_margin = False  # until a draw has ``violated``

    def __call__(self, *given: Any, **options: Any) -> Draw:
        """The sampler's draw, checked, since compiled code trusts it."""
        draw = _checked_draw(
            self._sampler(*given, **options), len(options["users"] if "users" in options else given[2]), self._n_items
        )
        self.has_margin = draw.violated is not None
        return draw

    def reset(self) -> None:
        """Called at the start of an epoch."""
        if hasattr(self._sampler, "reset"):
            self._sampler.reset()

    def logits(self, scores: DeviceArray, log_q: DeviceArray) -> DeviceArray:
        """The sampler's logits, where its weights are differentiable."""
        result: DeviceArray = self._sampler.logits(scores, log_q)
        return result

    @property
    def sampler(self) -> CallableSampler:
        """The caller's own."""
        own: CallableSampler = self._sampler
        return own

    @property
    def counts(self) -> Counts | None:
        """The sampler's counts, if it keeps some."""
        counts: Counts | None = getattr(self._sampler, "counts", None)
        return counts


def _checked_draw(draw: object, rows: int, n_items: int) -> Draw:
    """A :class:`Draw` for so many positives, also from an object with the same fields; anything else is refused."""
    missing = [name for name in ("ids", "weights", "tries") if not hasattr(getattr(draw, name, None), "shape")]
    if missing:
        raise SettingError(f"the sampler gave a {type(draw).__name__} without {missing[0]}; give a vr.samplers.Draw.")
    made = (
        draw
        if isinstance(draw, Draw)
        else Draw(**{field.name: getattr(draw, field.name, field.default) for field in fields(Draw)})
    )
    ids, mix = made.ids, made.mix
    if mix is not None and tuple(mix.shape) != tuple(ids.shape):
        raise SettingError(f"the sampler gave a mix of shape {tuple(mix.shape)}; give that of ids, {tuple(ids.shape)}.")
    shapes = tuple(ids.shape), tuple(made.weights.shape), tuple(made.tries.shape)
    if len(ids.shape) != 2 or shapes != ((rows, ids.shape[1]), (rows, ids.shape[1]), (rows,)):
        raise SettingError(
            f"the sampler gave ids {shapes[0]}, weights {shapes[1]} and tries {shapes[2]} for {rows} positives; "
            "they must be (B, k), (B, k) and (B,)."
        )
    if "int" not in str(ids.dtype) or (0 not in ids.shape and not (ids.min() >= -1 and ids.max() < n_items)):
        raise SettingError(f"the sampler gave ids of {ids.dtype} outside -1 to {n_items - 1}, or no whole numbers.")
    return made


def as_bound(sampler: CallableSampler, train: Interactions, seed: int) -> BoundSampler | SamplerAdapter:
    """A :class:`BoundSampler` unchanged, any other in a :class:`SamplerAdapter`, with that seed unless it has one.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1], [0, 1])
    >>> bound = vr.Uniform().bind(log)
    >>> as_bound(bound, log, seed=0) is bound
    True
    """
    return sampler if isinstance(sampler, BoundSampler) else SamplerAdapter(sampler, seed, train.n_items)
