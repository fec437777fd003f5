"""The finalists on the test part, and the winner trained on the whole log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial

from vitalrank._util.locks import waiting_writer
from vitalrank.checkpoint import is_saved
from vitalrank.comparing import Method, Outcome
from vitalrank.comparing.planning import slug
from vitalrank.comparing.runner import Runner
from vitalrank.comparing.store import ComparisonFolder
from vitalrank.config import TrainConfig
from vitalrank.interactions import Interactions
from vitalrank.models import load
from vitalrank.selection.candidates import Candidate
from vitalrank.selection.contest import fit_seconds
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


def pick_finalists(ranked: Ranked, count: int, seconds: float) -> list[tuple[Candidate, FrozenTrial]]:
    """The best candidates, and the baselines without epochs that cost next to nothing."""
    cheap = [(one, best) for one, best in ranked[count:] if not one.has_steps and fit_seconds(one) < _CHEAP * seconds]
    return [*ranked[:count], *cheap]


def method_of(candidate: Candidate, trial: FrozenTrial) -> Method:
    """A candidate with the settings of a trial, trained for the epoch count that valid picked."""
    plan, settings = candidate.plan, candidate.plan.settings(trial.params)
    epoch = trial.user_attrs[OUTCOME]["epoch"]
    training = {**settings.training, **({} if epoch is None else {"epochs": epoch})}
    return Method(candidate.label, partial(plan.model, settings), plan.sampler(settings), training)


def run_finals(
    methods: Sequence[Method],
    parts: dict[str, Interactions],
    config: TrainConfig,
    fixed: Collection[str],
    out: Path | None,
    tick: Callable[[], None],
) -> list[Outcome]:
    """Train the finalists on all but test, and measure each once on test; those that are in the folder are read.

    Validation is trained on, as the winner will be: the test follows what the models have seen without a gap.
    """
    runner = Runner(config, parts, counted=False, fixed=fixed)
    store = None if out is None else FinalStore(out / "finals", keep_models=False)
    outcomes = []
    for method in methods:
        outcomes.append(runner.run(method, config.seed, store, lambda *_: tick(), show=False))
        tick()
    return outcomes


def refit_winner(method: Method, log: Interactions, config: TrainConfig, out: Path | None) -> Any:
    """The winner trained on the whole log for its epoch count, kept in a folder that ``vitalrank.load`` reads."""
    model = method.make()
    if method.sampler is None:
        model.fit(log)
        if out is not None:
            model.save(out)
        return model
    if out is not None and is_saved(out):
        there = load(out)
        if _is_same(there, model, method, config, log):
            return there
    trainer = Trainer(config, progress=False)
    trainer.fit(model, log, method.sampler)
    if out is not None:
        model.save(out)
    return model


def _is_same(there: Any, model: Any, method: Method, config: TrainConfig, log: Interactions) -> bool:
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
