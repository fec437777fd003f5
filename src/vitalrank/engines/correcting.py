"""What the settings of the loss do to a draw: weights that correct for the sampler's proposal."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError
from vitalrank.losses import find_loss, gbce_weight
from vitalrank.samplers.adapter import SamplerAdapter
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw


def check_loss(config: TrainConfig, sampler: BoundSampler | SamplerAdapter) -> None:
    """Refuse settings of the loss that the sampler's weights exclude."""
    if config.correct != "none" and sampler.weighs_by_score:
        raise SettingError(
            f"correct is {config.correct!r}, but the sampler weighs its candidates itself; take one that does not, "
            "such as uni or pop."
        )
    if config.temperature != 1.0 and sampler.differentiable_weights:
        raise SettingError(
            f"temperature is {config.temperature:g}, but the gradient flows through the sampler's weights, which "
            "follow the scores as they are; set its detach=True or leave temperature at 1."
        )


def corrected(draw: Draw, config: TrainConfig, xp: ModuleType) -> Draw:
    """The draw with its weights times ``1 / (k q_j)``, where the settings ask for it."""
    if config.correct == "none":
        return draw
    if draw.log_q is None:
        raise SettingError(
            f"correct is {config.correct!r}, but the sampler's draws have no log_q; take one with a density, such as "
            "uni, pop or mixed."
        )
    return replace(draw, weights=draw.weights * (xp.exp(-draw.log_q) / draw.ids.shape[1]))


def positive_weight(config: TrainConfig, k: int, n_items: int) -> float:
    """The weight of a positive's own term in the loss, with k negatives of so many items."""
    return gbce_weight(config.calibration, k, n_items) if find_loss(config.loss).is_calibrated else 1.0


def score_scale(config: TrainConfig) -> float:
    """What the loss multiplies every score by."""
    return 1.0 if find_loss(config.loss).has_temperature else 1.0 / config.temperature
