"""Find the best model for a log within a time budget."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vitalrank._util.checks import to_float, to_int
from vitalrank._util.outputs import check_outputs, write_recorded
from vitalrank.checkpoint import is_saved
from vitalrank.comparing import Outcome, Results, check_tables, write_tables
from vitalrank.comparing.planning import Models, Samplers, metadata_of
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError, StorageError, TrainingError
from vitalrank.interactions import Interactions, check_log
from vitalrank.metrics import METRICS
from vitalrank.report.page import check_page, write_report
from vitalrank.report.searched import SEARCH
from vitalrank.selection.agreeing import agreed
from vitalrank.selection.candidates import SAMPLERS, Candidate, candidates_of
from vitalrank.selection.clock import Clock, resumable
from vitalrank.selection.contest import FINALISTS, Contest, SearchCallback, opened
from vitalrank.selection.finals import (
    Ranked,
    alone,
    final_store,
    method_of,
    pick_finalists,
    refit_winner,
    run_finals,
)
from vitalrank.selection.results import TIE, Best, RankedModel, against_winner, verdict_of
from vitalrank.selection.runoff import settled
from vitalrank.tuning import Settings, studies
from vitalrank.tuning.claims import OUTCOME

_STUDY = "best"
_FILE = "best.json"
_DECIDED = "candidates for "  # so many seconds: the study's note of who competes


def best(
    log: Interactions,
    *,
    minutes: float = 30.0,
    out: str | os.PathLike[str] | None = None,
    models: Models | None = None,
    samplers: Samplers = SAMPLERS,
    config: TrainConfig | None = None,
    fixed: Collection[str] = (),
    test: float = 0.2,
    valid: float = 0.1,
    seed: int = 0,
    storage: str | os.PathLike[str] | None = None,
    callback: SearchCallback | None = None,
    force: bool = False,
) -> Best:
    """Search models, samplers and settings together for so many minutes, and train the winner on the whole log.

    Every candidate is tried with its default settings first. Then successive halving over time: the best half goes
    on with more trials and epochs, later the best quarter, at last two. Settings and epoch counts are picked on the
    validation set. The test set is read once for each finalist, which is trained on all the rest, for the ranking
    and its paired tests; it decides nothing. At last the winner is trained again on the whole log for the epoch count
    that validation picked.

    Parameters
    ----------
    log
        The log; each user's last ``test`` share is held out, and ``valid`` of the rest.
    minutes
        Wall time for all of it, over all processes; trials stop after an epoch, so that it may end a little later.
        More minutes than before go on where the search ended.
    out
        Folder for the model, the report page, the tables and the study. The same call goes on after a stop or a
        kill. None keeps nothing.
    models, samplers
        Names, or by name what makes a model, and samplers with settings, as :func:`vitalrank.compare` takes them.
        A model without training steps competes once, the others with every sampler. By default MostPopular, ItemKNN,
        EASE (the sparse form where the dense one takes too much), ALS and MF, and, where torch is installed and the
        time suffices for their epochs, LightGCN and SASRec with two of the samplers.
    config
        Training settings; its ``metric`` ranks, and its ``epochs`` is the most that a trial trains.
    fixed
        Names of training settings that hold for every model, and are not searched.
    test, valid
        Shares to hold out.
    seed
        Of the search and of training.
    storage
        Where the study is kept instead of ``out``, as :func:`vitalrank.tune` takes it. Processes and machines that
        name the same one search together.
    callback
        Called with a candidate's label and news: the record of each epoch, each finished trial.
    force
        Replace files in ``out`` that vitalrank did not write.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> found = vr.best(log, minutes=0.02, models=["mostpopular", "itemknn"])
    >>> found.label in ("mostpopular", "itemknn"), len(found.model.train) == len(log)
    (True, True)
    """
    check_log("log", log)
    config = replace(config or TrainConfig(), seed=to_int("seed", seed, least=0, most=2**32 - 1))
    seconds = 60.0 * to_float("minutes", minutes)
    if not seconds > 0:
        raise SettingError(f"minutes is {minutes!r}; it must be above 0.")
    if config.parsed_metric()[0] not in METRICS:
        raise SettingError(f"metric {config.metric!r} cannot rank; choose one of {', '.join(METRICS)}, as in ndcg@10.")
    parts = dict(zip(("train", "valid", "test"), log.split_last(test, valid=valid), strict=True))
    for name, part in parts.items():
        if len(part) == 0:
            raise SettingError(f"the {name} set is empty; give a longer log, or another share.")
    place = None if out is None else Path(out)
    _check_place(place, force)
    facts = {"log": log.fingerprint, "test": test, "valid": valid, "metric": config.metric, "seed": seed}
    kept_in = storage if storage is not None or place is None else place / "study.db"
    with resumable(kept_in is not None), studies.quiet():
        clock = Clock(studies.open_study(kept_in, _STUDY, "none", config.epochs, facts), seconds)
        decided = clock.study.user_attrs.get(f"{_DECIDED}{seconds:g}", {})
        candidates, left_out = candidates_of(models, samplers, config, fixed, parts["train"], seconds, decided)
        clock.study.set_user_attr(f"{_DECIDED}{seconds:g}", decided)
    if not candidates:
        raise SettingError(f"no candidate is left: {'; '.join(f'{name} {why}' for name, why in left_out.items())}.")
    with resumable(kept_in is not None), opened(candidates, parts, kept_in, seed, callback, clock):
        contest = Contest(candidates, clock)
        contest.run()
        if not contest.ranked():
            raise TrainingError("no trial came to a result in the time; give more minutes, or fewer models.")
        final_parts = dict(zip(("train", "test"), log.split_last(test), strict=True))
        request = _Request(
            log, final_parts, config, fixed, place, force, test, _metadata(log, config, test, valid, candidates)
        )
        with alone(place):
            return request.finish(candidates, agreed(contest), clock, left_out)


@dataclass(frozen=True)
class _Request:
    """What the final and the refit need of the request."""

    log: Interactions
    final_parts: dict[str, Interactions]  # "train" is all but "test"
    config: TrainConfig
    fixed: Collection[str]
    out: Path | None
    force: bool
    test: float
    metadata: dict[str, Any]

    def finish(self, candidates: Sequence[Candidate], ranked: Ranked, clock: Clock, left_out: dict[str, str]) -> Best:
        """Finalists on test, the winner on the whole log, and everything written."""
        first = ranked[0]
        ranked = settled(ranked, self.final_parts["train"], self.test, self.config, self.fixed, self.out, clock)
        winner, trial = ranked[0]
        store = final_store(self.out)
        chosen = pick_finalists(
            ranked, FINALISTS, clock, lambda one: store is not None and store.has(one, self.config.seed)
        )
        methods = [method_of(*pair) for pair in chosen]
        outcomes = run_finals(methods, self.final_parts, self.config, self.fixed, store, clock.note)
        p_values = against_winner(winner.label, outcomes)
        verdict = verdict_of(winner.label, self.config.metric, outcomes, p_values, ranked[0] is first)
        entries = _entries(candidates, ranked, outcomes, p_values, self.config.metric)
        lines = [{name: getattr(one, name) for name in ("label", "value", "trials", "seconds")} for one in entries]
        facts = {**self.metadata, SEARCH: {"verdict": verdict, "ranking": lines}}
        results = Results(self.config.metric, tuple(outcomes), facts)
        if self.out is not None:
            write_tables(results, self.out, force=self.force)
            write_report(results, self.out / "report.html", title="The best model for this log", force=self.force)
        training = methods[0].config(self.config, self.fixed)
        model = refit_winner(methods[0], self.log, training, self.out)
        clock.note()
        found = Best(
            metric=self.config.metric,
            label=winner.label,
            model=model,
            settings=winner.plan.settings(trial.params),
            sampler=methods[0].sampler,
            training=vars(training),
            value=float(trial.value or 0.0),
            epoch=trial.user_attrs[OUTCOME]["epoch"],
            ranking=tuple(entries),
            verdict=verdict,
            results=results,
            seconds=clock.spent(),
            left_out=left_out,
            out=self.out,
        )
        if self.out is not None:
            write_recorded(self.out / _FILE, json.dumps(found.to_dict(), indent=1, default=str), force=self.force)
        return found


def _check_place(out: Path | None, force: bool) -> None:
    """Refuse before the first trial to write over what is not ours."""
    if out is None:
        return
    check_tables(out, force=force)
    check_page(out / "report.html", force=force)
    check_outputs([out / _FILE], force=force)
    if is_saved(out) and not (out / _FILE).exists() and not (out / "study.db").exists():
        raise StorageError(f"{out}: holds a run already; choose another folder.")


def _metadata(
    log: Interactions, config: TrainConfig, test: float, valid: float, candidates: Sequence[Candidate]
) -> dict[str, Any]:
    most = max(len(one.search.claims.finished) for one in candidates if one.search is not None)
    return {**metadata_of(log, config, test, valid, [config.seed]), "tuning": {"trials": f"up to {most}"}}


def _entries(
    candidates: Sequence[Candidate],
    ranked: Ranked,
    outcomes: Sequence[Outcome],
    p_values: Mapping[str, float],
    metric: str,
) -> list[RankedModel]:
    """A line for each candidate, in that order; those without a result last."""
    bests = {one.label: trial for one, trial in ranked}
    tests = {outcome.label: outcome.metrics[metric] for outcome in outcomes}
    last = [one for one in candidates if one.label not in bests]
    entries = []
    for one in [*(pair[0] for pair in ranked), *last]:
        assert one.search is not None
        finished, trial = one.search.claims.finished, bests.get(one.label)
        settings: Settings | None = None if trial is None else one.plan.settings(trial.params)
        p_value = p_values.get(one.label)
        entries.append(
            RankedModel(
                label=one.label,
                value=None if trial is None else float(trial.value or 0.0),
                settings=settings,
                epoch=None if trial is None else trial.user_attrs[OUTCOME]["epoch"],
                trials=len(finished),
                seconds=sum(done.user_attrs[OUTCOME]["seconds"] for done in finished),
                test=tests.get(one.label),
                p_value=p_value,
                is_tie=p_value is not None and p_value >= TIE,
            )
        )
    return entries
