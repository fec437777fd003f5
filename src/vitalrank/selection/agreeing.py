"""One ranking for all processes of a search."""

from __future__ import annotations

import math
import time

from vitalrank.selection.contest import Contest
from vitalrank.selection.finals import Ranked
from vitalrank.selection.trials import search_of

_KEPT = "ranking"  # the study's note of how the candidates went into the final, and when


def agreed(contest: Contest) -> Ranked:
    """The ranking with which the first process went into the final, for all that were at work then.

    A trial that ends later, such as a fit that no limit stops, does not count any more: the processes would report
    different winners. The same search started again ranks anew.
    """
    study, ranked = contest.clock.study, contest.ranked()
    if study.user_attrs.get(_KEPT, {}).get("at", -math.inf) <= contest.clock.began:
        places = [[one.label, trial.number] for one, trial in ranked]
        study.set_user_attr(_KEPT, {"at": time.time(), "places": places})
    by_label = {one.label: one for one in contest.candidates}
    places = study.user_attrs[_KEPT]["places"]
    if any(label not in by_label for label, _ in places):  # of a process that was asked for other models
        return ranked
    trials = {label: {trial.number: trial for trial in search_of(one).whole} for label, one in by_label.items()}
    return [(by_label[label], trials[label][number]) for label, number in places]
