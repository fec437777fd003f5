"""``fit``: a run folder from a log."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vitalrank._util.display import printable
from vitalrank.cli import options, taking
from vitalrank.cli.config import in_force, typed_and_filed
from vitalrank.cli.output import print_json
from vitalrank.cli.ranks import over_ranks
from vitalrank.config import CHECKPOINT_SECONDS, TrainConfig
from vitalrank.distributed.joining import current_group, is_restarted
from vitalrank.errors import SettingError

if TYPE_CHECKING:
    from vitalrank.interactions import Interactions
    from vitalrank.models.base import Recommender
    from vitalrank.models.trainable import TrainableModel
    from vitalrank.samplers import Sampler

_LOG = {name: options.READING[name] for name in (*options.FORMAT, "min_user", "min_item")}  # how the log is read


@taking.takes(options.READING, options.SPLIT, options.TRAINING, options.FILES)
@over_ranks
def fit(
    ctx: typer.Context,
    log: options.Log,
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    model: options.Model = "mf",
    sampler: options.SamplerName = None,
    settings: options.Settings = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = TrainConfig.seed,
    checkpoint_epochs: Annotated[int | None, typer.Option(help="Epochs between checkpoints.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = CHECKPOINT_SECONDS,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    progress: Annotated[bool | None, options.output(help="Show a progress bar.", show_default="on a terminal")] = None,
    count: Annotated[
        bool,
        typer.Option(
            "--count", help="Count positives and negatives per item, so that inspect shows the imbalance of each epoch."
        ),
    ] = False,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Then train on all of LOG for the epoch count that valid picked; that first run stays in OUT.picked.",
        ),
    ] = False,
) -> None:
    """Train a model on LOG and keep it in a folder.

    Each user's last 20 % is held out, or what --split, --cutoff or --test-log say, and the folder remembers it, so that
    [bold]evaluate[/] needs no further arguments; --test 0 trains on everything.

    [bold]vitalrank fit log.tsv --out runs/a --sampler vins --set beta=0.25[/]
    """
    from vitalrank._util.locks import only_writer
    from vitalrank.cli.choices import save_config
    from vitalrank.cli.splits import read_parts
    from vitalrank.models.ease import EASE

    request = _fit(ctx, model, sampler, typed_and_filed(ctx, "settings"))
    group = current_group()
    if request.sampler is None:
        if group.size > 1:
            raise SettingError(f"{model} has no steps that ranks could share; leave out --ranks and torchrun.")
        _refuse_existing(out)
    group.on_rank_zero(lambda: save_config(ctx, request.config_file(in_force(ctx))))
    by_users = model == "mf" and not ctx.params.get("blocks")
    found = read_parts(log, ctx, group if by_users else None)
    train, parts = found.train, found.held_out
    first = _picked(out, parts, resume or is_restarted()) if refit else out
    made = request.model
    made.held_out = parts
    if train.weights is not None and not made.reads_weights:
        warnings.warn(f"{made!r} does not read weights; every row of {printable(log)} counts the same.", stacklevel=2)
    if request.sampler is None:
        if isinstance(made, EASE) and not ctx.params["json"]:
            typer.echo(printable(f"{made!r} takes about {made.estimate(train)}."), err=True)
        made.fit(train)
        with only_writer(out):
            _refuse_existing(out)  # another run may have come first
            made.save(out)
    else:
        kept = {name: ctx.params[name] for name in options.KEEPING}
        if count:
            from vitalrank.analysis import Counted

            counted = Counted(request.sampler)
            request, kept = replace(request, sampler=counted), {**kept, "callbacks": [counted.on_epoch]}
        given = dict(request.given)
        if "valid" not in parts and not taking.is_typed(ctx, "patience"):
            given.pop("patience", None)  # of a config file, which may also serve to train on everything
        made.fit(train, request.sampler, valid=parts.get("valid"), checkpoint=first, **given, **kept)
        if refit:
            made = _refit(made, found.whole(), request.sampler, out, kept)
    if ctx.params["json"]:
        held_out = len(made.held_out.get("test", ()))
        facts = {"run": str(out), "model": repr(made), "trained_on": len(made.train), "held_out": held_out}
        print_json({**facts, "notes": found.notes})
        return
    typer.echo(printable(f"{made!r} trained on {made.train}; saved in {out}."))
    for line in (*found.notes, *_summary(made, f"{quote(str(log))}{taking.repeated(ctx, _LOG)}", out)):
        typer.echo(printable(line))


def _picked(out: Path, parts: Mapping[str, Any], resume: bool) -> Path:
    """The folder of the run whose epoch count a refit takes."""
    from vitalrank.checkpoint import is_saved
    from vitalrank.errors import StorageError

    if "valid" not in parts:
        raise SettingError("--refit takes the epoch count that valid picks; give a --valid share above 0.")
    if not resume and current_group().on_rank_zero(lambda: is_saved(out)):
        raise StorageError(f"{out}: holds a run already; resume it (--resume) or choose another folder.")
    return out.with_name(f"{out.name}.picked")


def _refit(
    made: TrainableModel, log: Interactions, sampler: Sampler, out: Path, kept: Mapping[str, Any]
) -> TrainableModel:
    """The model trained on the whole log; one that was finished before is loaded."""
    import vitalrank as vr
    from vitalrank.checkpoint import is_saved

    if current_group().on_rank_zero(lambda: is_saved(out)):
        there = vr.load(out)
        if (
            len(there.history) >= (made.history.best_epoch or len(made.history))
            and there.train.fingerprint == log.fingerprint
        ):
            assert isinstance(there, type(made))
            return there
    return made.refit(log, sampler, checkpoint=out, **kept)


def _summary(model: Recommender, log: str, out: Path) -> Iterator[str]:
    """How training went, and the commands to type next; ``log`` with the options by which it is read."""
    history = model.history
    if history:
        metric = (history.settings or {}).get("metric", "")
        values = {record["epoch"]: record[metric] for record in history if record.get(metric) is not None}
        best = history.best_epoch
        kept = f"best epoch {best} of {len(history)}" if best else f"{len(history)} epochs"
        score = f", {metric} {values[best]:.4f} on valid" if best in values else ""
        seconds = sum(record.get("seconds", 0.0) for record in history)
        yield f"{history.sampler or type(model).__name__}: {kept}{score}, {seconds:.1f} s of training."
    command = "evaluate" if "test" in model.held_out else "inspect"
    yield f"Next: vitalrank {command} {quote(str(out))}"
    yield f"Is another model better for this log? vitalrank compare {log} --out {quote(str(out))}-compared"


def _refuse_existing(out: Path) -> None:
    """As the trainer does for models with steps, but there is nothing to resume."""
    from vitalrank.checkpoint import is_saved
    from vitalrank.errors import StorageError

    if is_saved(out):
        raise StorageError(f"{out}: already holds a run; choose another folder.")


@dataclass(frozen=True)
class _Fit:
    """A model to fit, its sampler (None for a model without steps) and the training options that were given."""

    name: str
    model: Any
    sampler: Any
    given: dict[str, Any]

    def config_file(self, options_in_force: dict[str, Any]) -> dict[str, Any]:
        """Every setting in force, with the model's own defaults."""
        from vitalrank.cli.choices import fit_file

        return fit_file(options_in_force, self.name, self.model, self.sampler, self.given)


def _fit(ctx: typer.Context, name: str, sampler: str | None, settings: list[str]) -> _Fit:
    from vitalrank.cli.choices import make, model_kind, sampler_for, split_settings
    from vitalrank.models import is_trained

    kind = model_kind(name)
    shape, sampler_settings = split_settings(settings, kind)
    model = make(kind, name, shape)
    given = options.training_of(ctx, given=True)
    if not is_trained(kind):
        flags = [flag for flag in (*options.FIELDS, "sampler", *options.STEPS) if taking.is_given(ctx, flag)]
        if flags or sampler_settings:
            raise SettingError(f"{name} has no steps and no sampler; leave out {_typed(flags, sampler_settings)}.")
        return _Fit(name, model, None, {})
    return _Fit(name, model, sampler_for(model, sampler, sampler_settings, given), given)


def _typed(flags: list[str], sampler_settings: list[str]) -> str:
    options_typed = [f"--{flag.replace('_', '-')}" for flag in flags]
    return ", ".join([*options_typed, *(f"--set {setting}" for setting in sampler_settings)])
