"""An experiment: the runs that it needs, the data made of them, and how the data are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitalrank.paper.logs import Source
from vitalrank.paper.scheduling import Task
from vitalrank.paper.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Data = dict[str, Any]  # plain values that JSON can hold


def nothing(study: Study) -> list[Task]:
    """No training is needed."""
    return []


def nothing_shared(study: Study) -> Data:
    """No data are shared by the logs."""
    return {}


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    ``plan`` names the runs it rests on, ``timed`` those that must run with little beside them; ``of_log`` makes the
    data of what is finished on a log, ``shared`` what holds for all logs; ``markdown`` and ``draw`` show the data.
    ``needs`` names those methods without any of which there is nothing to show.
    """

    name: str
    title: str
    of_log: Callable[[Study, Source], Data]
    markdown: Callable[[Data], str]
    draw: Callable[[Data], Figure] | None = None
    plan: Callable[[Study], list[Task]] = nothing
    timed: Callable[[Study], list[Task]] = nothing
    shared: Callable[[Study], Data] = nothing_shared
    needs: Sequence[str] = ()  # methods, one of which must take part

    def collect(self, study: Study) -> Data:
        """The data of every log."""
        return {"logs": {source.name: self.of_log(study, source) for source in study.sources}, **self.shared(study)}


def mean_and_spread(values: Sequence[float]) -> Data | None:
    """Mean, standard deviation over runs (None for one run) and number of runs; None without any.

    Examples
    --------
    >>> mean_and_spread([1.0, 3.0])
    {'mean': 2.0, 'sd': 1.4142135623730951, 'runs': 2}
    """
    if not len(values):
        return None
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd": spread, "runs": len(values)}
