"""Negative samplers: each picks item ids (and weights) from vectors, positives and the items already seen."""

from vitalrank import registry
from vitalrank.samplers.adversarial import IRGAN
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.bayesian import BNS
from vitalrank.samplers.counting import Counts
from vitalrank.samplers.draws import Draw
from vitalrank.samplers.in_batch import InBatch
from vitalrank.samplers.known import Known
from vitalrank.samplers.metric import CML
from vitalrank.samplers.mixed import Mixed
from vitalrank.samplers.pooled import DNS, LFMD
from vitalrank.samplers.ranked import AOBPR
from vitalrank.samplers.rejecting import LFMW, VINS, reject_sample
from vitalrank.samplers.score_pooled import AHNS, MixGCF
from vitalrank.samplers.settings import Sampler
from vitalrank.samplers.softmax_weighted import PRIS, SA
from vitalrank.samplers.static import Popularity, Uniform

# The classes by their names in the registry.
SAMPLERS: dict[str, type[Sampler]] = {name: entry.load() for name, entry in registry.SAMPLERS.items()}


def find_sampler(name: str) -> type[Sampler]:
    """The sampler of that name.

    Examples
    --------
    >>> find_sampler("lfm-w")(margin=2.0)
    LFMW(margin=2.0, kappa=1024, weight='harmonic')
    """
    table = registry.GIVEN_SAMPLERS if name in list(registry.GIVEN_SAMPLERS) else registry.SAMPLERS
    found: type[Sampler] = table.find(name).load()
    return found


__all__ = [
    "AHNS",
    "AOBPR",
    "BNS",
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
    "InBatch",
    "Known",
    "MixGCF",
    "Mixed",
    "Popularity",
    "Sampler",
    "Uniform",
    "find_sampler",
    "reject_sample",
]
