"""What a training step is compiled for and configured with, on every device."""

from __future__ import annotations

from typing import NamedTuple

from vitalrank.kernels.optimizers import Optimizer
from vitalrank.losses import LOSSES

# Codes of the losses that kernels tell apart; any other is BPR's.
HINGE, CROSS_ENTROPY, SOFTMAX = (LOSSES[name].code for name in ("hinge", "cross_entropy", "softmax"))
BSL, PSL = LOSSES["bsl"].code, LOSSES["psl"].code


class StepConfig(NamedTuple):
    """Settings of a training step. A CPU kernel is compiled for the type of the settings and of their optimizer."""

    loss: int
    margin: float
    weight_gradient: bool  # whether the weights are a softmax of the negatives' scores, differentiated with them
    optimizer: Optimizer
    frozen: int  # trailing columns of the users' table that are not trained
    reg: float
    scale: float = 1.0  # of the scores that the loss reads
    positive_weight: float = 1.0  # of a positive's own term, in a pointwise loss
    normalize: bool = False  # whether rows are kept at length 1, so that scores are cosines
    power: float = 1.0  # of the sum of BSL's negatives, or of each term of PSL


class SoftmaxStepConfig(StepConfig):
    """The negatives of a positive share one softmax."""


class BilateralStepConfig(StepConfig):
    """The same without the positive in it."""


class PairwiseSoftmaxStepConfig(StepConfig):
    """The negatives share one softmax of a function of their distance to the positive."""


STEP_CONFIGS = {SOFTMAX: SoftmaxStepConfig, BSL: BilateralStepConfig, PSL: PairwiseSoftmaxStepConfig}  # by loss
