"""The finalists on the test set, and the winner trained on the whole log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from optuna.trial import FrozenTrial

from vitalrank._util.locks import waiting_writer
from vitalrank.checkpoint import is_saved
from vitalrank.comparing import Method, Outcome
from vitalrank.comparing.outcomes import result_file
from vitalrank.comparing.planning import slug
from vitalrank.comparing.runner import Runner
from vitalrank.comparing.store import ComparisonFolder
from vitalrank.config import TrainConfig
from vitalrank.interactions import Interactions
from vitalrank.models import load
from vitalrank.models.base import Recommender
from vitalrank.models.trainable import TrainableModel
from vitalrank.selection.candidates import Candidate
from vitalrank.selection.clock import Clock
from vitalrank.selection.trials import final_seconds, fit_seconds, refit_seconds
from vitalrank.training import Trainer
from vitalrank.tuning.claims import OUTCOME

Ranked = Sequence[tuple[Candidate, FrozenTrial]]

_CHEAP = 0.05  # of the budget: a baseline that took less is a finalist whatever its rank
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class FinalStore(ComparisonFolder):
    """Outcomes of finalists by their settings: more minutes may find others for the same candidate."""

    def folder(self, method: Method, seed: int) -> Path:
        model = method.make()
        identity = json.dumps([repr(model), repr(method.sampler), dict(method.training), seed], sort_keys=True)
        return self.path / f"{slug(method.label)}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"

    def has(self, method: Method, seed: int) -> bool:
        """Whether an outcome is there."""
        return result_file(self.folder(method, seed)).exists()


def pick_finalists(
    ranked: Ranked, count: int, clock: Clock, is_measured: Callable[[Method], bool]
) -> list[tuple[Candidate, FrozenTrial]]:
    """The winner, and as the time allows the next best and the baselines that cost next to nothing."""
    cheap = [pair for pair in ranked[count:] if not pair[0].has_steps and fit_seconds(pair[0]) < _CHEAP * clock.seconds]
    left = clock.left() - final_seconds(*ranked[0]) - refit_seconds(*ranked[0])
    found = [ranked[0]]
    for pair in [*cheap, *ranked[1:count]]:
        needed = 0.0 if is_measured(method_of(*pair)) else final_seconds(*pair)
        if needed <= max(left, 0.0):
            found.append(pair)
            left -= needed
    return sorted(found, key=ranked.index)


def method_of(candidate: Candidate, trial: FrozenTrial) -> Method:
    """A candidate with the settings of a trial, trained for the epoch count that valid picked."""
    plan, settings = candidate.plan, candidate.plan.settings(trial.params)
    epoch = trial.user_attrs[OUTCOME]["epoch"]
    training = {**settings.training, **({} if epoch is None else {"epochs": epoch})}
    return Method(candidate.label, partial(plan.model, settings), plan.sampler(settings), training)


def final_store(out: Path | None, name: str = "finals") -> FinalStore | None:
    """Where finalists of a search are kept."""
    return None if out is None else FinalStore(out / name, keep_models=False)


def run_finals(
    methods: Sequence[Method],
    parts: dict[str, Interactions],
    config: TrainConfig,
    fixed: Collection[str],
    store: FinalStore | None,
    tick: Callable[[], None],
) -> list[Outcome]:
    """Train the finalists on all but test, and measure each once on test; those that are in the folder are read.

    Validation is trained on, as the winner will be: the test follows what the models have seen without a gap.
    """
    runner = Runner(config, parts, counted=False, fixed=fixed)
    outcomes = []
    for method in methods:
        outcomes.append(runner.run(method, config.seed, store, lambda *_: tick(), show=False))
        tick()
    return outcomes


def refit_winner(method: Method, log: Interactions, config: TrainConfig, out: Path | None) -> Recommender:
    """The winner trained on the whole log for its epoch count, kept in a folder that ``vitalrank.load`` reads."""
    model: Recommender = method.make()
    if method.sampler is None:
        model.fit(log)
        if out is not None:
            model.save(out)
        return model
    if out is not None and is_saved(out):
        there = load(out)
        if _is_same(there, model, method, config, log):
            return there
    assert isinstance(model, TrainableModel)  # no other has a sampler
    trainer = Trainer(config, progress=False)
    trainer.fit(model, log, method.sampler)
    if out is not None:
        model.save(out)
    return model


def _is_same(there: Recommender, model: Recommender, method: Method, config: TrainConfig, log: Interactions) -> bool:
    """Whether a saved model is the one to be trained: a training that was finished is not repeated."""
    history = there.history
    return (
        repr(there) == repr(model)
        and history.sampler == repr(method.sampler)
        and history.settings == config.run_identity()
        and len(history) == config.epochs
        and there.train.fingerprint == log.fingerprint
    )


@contextmanager
def alone(out: Path | None) -> Iterator[None]:
    """One process of a search runs the final; the others wait for it, and then read what it found."""
    if out is None:
        yield
        return
    with waiting_writer(out / "finals", poll=_POLL_SECONDS):
        yield
