"""Negative samplers: each picks item ids (and weights) from vectors, positives and the items already seen."""

from vitalrank.errors import SettingError
from vitalrank.samplers.adversarial import IRGAN
from vitalrank.samplers.base import BoundSampler, Draw, Sampler
from vitalrank.samplers.counting import Counts
from vitalrank.samplers.pooled import CML, DNS, LFMD
from vitalrank.samplers.ranked import AOBPR
from vitalrank.samplers.rejecting import LFMW, VINS, reject_sample
from vitalrank.samplers.softmax_weighted import PRIS, SA
from vitalrank.samplers.static import Popularity, Uniform

# Names on the command line, in the paper's order.
SAMPLERS: dict[str, type[Sampler]] = {
    "uni": Uniform,
    "pop": Popularity,
    "aobpr": AOBPR,
    "cml": CML,
    "pris": PRIS,
    "sa": SA,
    "irgan": IRGAN,
    "dns": DNS,
    "lfm-d": LFMD,
    "lfm-w": LFMW,
    "vins": VINS,
}


def find_sampler(name: str) -> type[Sampler]:
    """The sampler of that name.

    Examples
    --------
    >>> find_sampler("lfm-w")(margin=2.0)
    LFMW(margin=2.0, kappa=1024, weight='harmonic')
    """
    if name not in SAMPLERS:
        raise SettingError(f"unknown sampler {name!r}; choose one of {', '.join(SAMPLERS)}.")
    return SAMPLERS[name]


__all__ = [
    "AOBPR",
    "CML",
    "DNS",
    "IRGAN",
    "LFMD",
    "LFMW",
    "PRIS",
    "SA",
    "SAMPLERS",
    "VINS",
    "BoundSampler",
    "Counts",
    "Draw",
    "Popularity",
    "Sampler",
    "Uniform",
    "find_sampler",
    "reject_sample",
]
