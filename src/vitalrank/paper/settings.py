"""The size of a study: trials, seeds, epochs, machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vitalrank._util.checks import MOST_SEED, check_choice, check_count, check_number, to_builtin_scalars
from vitalrank.schedules import SCHEDULES

PROTOCOLS = ("valid", "paper")
COUNTS = (
    "seeds", "trials", "epochs", "valid_every", "dim", "finalists", "runoff_seeds",
    "model_trials", "model_seeds", "model_epochs", "model_patience", "model_valid_every", "buffer_seeds",
    "variation_seeds", "long_epochs", "timed_epochs", "workers", "timed_workers",
)  # fmt: skip
COUNTS_OR_NONE = ("costly_trials", "trial_epochs", "patience", "trial_patience")
SECONDS_OR_NONE = ("budget_seconds", "run_seconds")
MACHINE = ("workers", "timed_workers", "budget_seconds", "timed_share")  # settings that change no result


@dataclass(frozen=True)
class StudySettings:
    """What all experiments of a study share.

    Parameters
    ----------
    seeds, trials
        Runs of each method with its best settings; settings tried for each method on each log, the same number
        for all.
    costly_trials
        Settings tried for those whose epochs cost many times Uniform's (CML, PRIS, SA, the softmax losses); None: as
        many as for the others.
    epochs, patience, valid_every, schedule, dim
        Of every run with MF and CML. Without a patience those whose rate falls go to their end: it gains most there.
    trial_epochs, trial_patience
        While settings are tried, the same for all; no epochs: as many as in every run.
    finalists, runoff_seeds
        How many of the best trials, at most half of all, are run again, with how many seeds, to find the best ones.
    protocol
        ``"valid"``: settings and epoch are picked on a validation set, test is read once. ``"paper"``: no validation
        set; both are picked on test, as the paper does.
    model_trials, model_seeds, model_epochs, model_patience, model_valid_every
        The same for IRGAN and the models of Figures 7 to 9, which cost more; their learning rate is constant.
    buffer_seeds, variation_seeds
        Runs of each setting of Table 5 and of the variations.
    long_epochs, timed_epochs
        Epochs of the runs that count tries, and of those that are timed.
    measured_on
        Where the runs of Tables 3 to 5 and of Figure 3 are trained; None: where the others are.
    device, workers, timed_workers
        Where to train; runs side by side, each a process, and while time is measured.
    budget_seconds, timed_share
        Start nothing new after so long; None has no end. What is unfinished is done by the same command again. A share
        of that time is kept for the runs that are timed.
    run_seconds
        Longest training of one run, in seconds of the processor on a CPU; a run that was cut is marked so.
    search_seed
        Of the settings that are tried.

    Examples
    --------
    >>> StudySettings().seeds, StudySettings.quick(workers=2).trials
    (5, 3)
    """

    seeds: int = 5
    trials: int = 12
    costly_trials: int | None = None
    epochs: int = 120
    patience: int | None = None
    valid_every: int = 5
    schedule: str = "linear"
    dim: int = 64
    trial_epochs: int | None = None
    trial_patience: int | None = None
    finalists: int = 4
    runoff_seeds: int = 2
    protocol: str = "valid"
    model_trials: int = 4
    model_seeds: int = 2
    model_epochs: int = 60
    model_patience: int = 4
    model_valid_every: int = 2
    buffer_seeds: int = 2
    variation_seeds: int = 3
    long_epochs: int = 150
    timed_epochs: int = 30
    measured_on: str | None = None
    device: str = "cpu"
    workers: int = 1
    timed_workers: int = 1
    budget_seconds: float | None = None
    timed_share: float = 0.15
    run_seconds: float | None = None
    search_seed: int = 0

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_choice("protocol", self.protocol, PROTOCOLS)
        check_choice("schedule", self.schedule, SCHEDULES)
        given = {name: value for name, value in vars(self).items() if value is not None}
        for name in (*COUNTS, *(name for name in COUNTS_OR_NONE if name in given)):
            check_count(name, getattr(self, name))
        for name in ("timed_share", *(name for name in SECONDS_OR_NONE if name in given)):
            check_number(name, getattr(self, name), least=0)
        check_count("search_seed", self.search_seed, least=0, most=MOST_SEED)

    @classmethod
    def quick(cls, **changes: Any) -> StudySettings:
        """Minutes instead of hours: the same experiments, too small to conclude from."""
        small = cls(
            seeds=2, trials=3, epochs=24, valid_every=3, dim=32, model_trials=1, model_seeds=1,
            model_epochs=4, buffer_seeds=1, variation_seeds=1, long_epochs=20, timed_epochs=3, run_seconds=20.0,
            finalists=1,
        )  # fmt: skip
        return replace(small, **changes)
