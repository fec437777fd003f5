"""Plain-Python definitions of the samplers, to be read beside the papers; the kernels reproduce them id for id.

Each takes a ``Row``, k and the sampler's settings, and gives an ``Answer``. Nothing here imports the library.
"""

from __future__ import annotations

from collections.abc import Callable

from reference.adversarial import irgan
from reference.mixed import mixed
from reference.pooled import ahns, bns, cml, dns, lfmd, mixgcf
from reference.ranked import aobpr
from reference.rejecting import lfmw, vins
from reference.row import Answer, Row
from reference.static import popularity, uniform
from reference.weighted import pris, sa

REFERENCES: dict[str, Callable[..., Answer]] = {
    "uni": uniform,
    "pop": popularity,
    "aobpr": aobpr,
    "cml": cml,
    "pris": pris,
    "sa": sa,
    "irgan": irgan,
    "dns": dns,
    "lfm-d": lfmd,
    "mixgcf": mixgcf,
    "ahns": ahns,
    "bns": bns,
    "mixed": mixed,
    "lfm-w": lfmw,
    "vins": vins,
}

__all__ = ["REFERENCES", "Answer", "Row"]
