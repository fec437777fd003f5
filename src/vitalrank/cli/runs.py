"""``fit``, ``evaluate`` and ``recommend``: a run folder from a log, then honest numbers and lists from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vitalrank.cli import options
from vitalrank.training.settings import TrainConfig

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A folder that fit wrote.")]


def fit(
    ctx: typer.Context,
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="The log: .csv .tsv .jsonl .parquet .inter, also .gz/.zst.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    model: Annotated[str, typer.Option(help="mf fpmc marank cml irgan itemknn mostpopular.")] = "mf",
    sampler: Annotated[
        str | None,
        typer.Option(
            help="uni pop aobpr dns lfm-d lfm-w vins sa pris cml irgan.", show_default="the model's own, vins for most"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Of the model (dim=32) or the sampler (beta=0.25); repeatable."
        ),
    ] = None,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    time: options.TimeColumn = None,
    min_user: options.MinUser = 0,
    min_item: options.MinItem = 0,
    test: Annotated[float, typer.Option(help="Each user's last share, held out for evaluate; 0 trains on all.")] = 0.2,
    valid: Annotated[float, typer.Option(help="Share of the rest that picks the epoch; 0 for none.")] = 0.1,
    epochs: options.Epochs = TrainConfig.epochs,
    lr: options.LearningRate = TrainConfig.lr,
    reg: options.Reg = TrainConfig.reg,
    loss: options.Loss = TrainConfig.loss,
    hinge_margin: options.HingeMargin = TrainConfig.margin,
    optimizer: options.Optimizer = TrainConfig.optimizer,
    batch: options.BatchSize = TrainConfig.batch,
    negatives: options.Negatives = TrainConfig.negatives,
    schedule: options.Schedule = TrainConfig.schedule,
    patience: options.Patience = TrainConfig.patience,
    valid_every: options.ValidEvery = TrainConfig.valid_every,
    metric: options.Metric = TrainConfig.metric,
    threads: options.Threads = None,
    device: options.Device = TrainConfig.device,
    seed: Annotated[int, typer.Option(help="Of every random draw.")] = TrainConfig.seed,
    checkpoint_epochs: Annotated[int | None, typer.Option(help="Save after so many epochs.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Save after so many seconds.")] = 30.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    on_bad: options.OnBad = "raise",
    json: options.Json = False,
) -> None:
    """Train a model on LOG and keep it in a folder.

    Each user's last 20 % is held out; the folder remembers it, so that [bold]evaluate[/] is honest without more
    arguments.
    """
    import vitalrank as vr
    from vitalrank.cli.choices import make, make_sampler, print_json, split_settings
    from vitalrank.models import model_class

    whole = vr.read(log, user=user, item=item, time=time, on_bad=on_bad).k_core(min_user, min_item)
    parts = _parts(whole, test, valid)
    train = parts.pop("train")
    kind = model_class(model)
    shape, law = split_settings(settings or [], kind)
    made: Any = make(kind, model, shape)
    made.held_out = parts
    given = _given(ctx)
    if hasattr(kind, "build"):
        chosen = make_sampler(sampler or "vins", law) if sampler or law else None
        made.fit(train, chosen, valid=parts.get("valid"), checkpoint=out, **given)
    elif given or sampler or law:
        raise vr.SettingError(f"{model} has no steps and no sampler; leave out {_flags(given, sampler, law)}.")
    else:
        made.fit(train)
        made.save(out)
    report = {"run": str(out), "model": repr(made), "trained_on": len(train), "held_out": len(parts.get("test", ()))}
    print_json(report) if json else typer.echo(f"{made!r} trained on {train}; kept in {out}.")


# Options of the library's fit that a flag of another name stands for.
_RENAMED = {"hinge_margin": "margin"}
_TRAINING = (
    "epochs", "lr", "reg", "loss", "hinge_margin", "optimizer", "batch", "negatives", "schedule", "patience",
    "valid_every", "metric", "threads", "device", "seed", "checkpoint_epochs", "checkpoint_seconds", "resume",
)  # fmt: skip


def _given(ctx: typer.Context) -> dict[str, Any]:
    """The training options that were typed; a model has defaults of its own for the others."""
    typed = [name for name in _TRAINING if _is_typed(ctx, name)]
    return {_RENAMED.get(name, name): ctx.params[name] for name in typed}


def _is_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _flags(given: dict[str, Any], sampler: str | None, law: list[str]) -> str:
    flags = [f"--{name.replace('_', '-')}" for name in [*given, *(["sampler"] if sampler else [])]]
    return ", ".join([*flags, *(f"--set {setting}" for setting in law)])


def evaluate(
    run: Run,
    at: Annotated[list[int] | None, typer.Option(help="Length of the lists; repeatable.")] = None,
    by: Annotated[str | None, typer.Option(help="Break down by degree (of users) or popularity (of items).")] = None,
    on: Annotated[str, typer.Option(help="Held-out part: test or valid.")] = "test",
    bootstrap: Annotated[int, typer.Option(help="Resamples for 95 % intervals; 0 for none.")] = 0,
    json: options.Json = False,
) -> None:
    """Measure a run on what it held out."""
    import vitalrank as vr
    from vitalrank.cli.choices import print_json

    model = vr.load(run)
    if on not in model.held_out:
        raise vr.SettingError(f"{run}: holds out no {on} part; fit again with --{on} above 0.")
    others = [part for name, part in model.held_out.items() if name != on and on == "test"]
    result = vr.evaluate(model, model.held_out[on], at=at or (5, 10, 20), by=by, exclude=others, bootstrap=bootstrap)
    if json:
        print_json({**result, "groups": result.groups, "intervals": result.intervals})
    else:
        print(result)


def recommend(
    run: Run,
    user: Annotated[list[str], typer.Option(help="A user of the log; repeatable.")],
    n: Annotated[int, typer.Option(help="Length of the list.")] = 10,
    unknown: Annotated[str, typer.Option(help="A user the log does not hold: error or popular.")] = "error",
    json: options.Json = False,
) -> None:
    """List the best items that a user has not seen."""
    import vitalrank as vr
    from vitalrank.cli.choices import print_json

    model = vr.load(run)
    users = [_like(model.train.user_ids, one) for one in user]
    ids, scores = model.recommend(users, n=n, unknown=unknown)
    lists = {
        str(who): [{"item": item, "score": float(score)} for item, score in zip(row, values, strict=True)]
        for who, row, values in zip(users, ids.tolist(), scores, strict=True)
    }
    if json:
        print_json(lists)
        return
    for who, row in lists.items():
        print(f"{who}:")
        for place, pick in enumerate(row, 1):
            print(f"  {place:>3}  {pick['item']}  {pick['score']:.4f}")


def similar(
    run: Run,
    item: Annotated[str, typer.Option(help="An item of the log.")],
    n: Annotated[int, typer.Option(help="Length of the list.")] = 10,
    json: options.Json = False,
) -> None:
    """List the items most like one item."""
    import vitalrank as vr
    from vitalrank.cli.choices import print_json

    model = vr.load(run)
    ids, scores = model.similar_items(_like(model.train.item_ids, item), n=n)
    picks = [{"item": one, "score": float(score)} for one, score in zip(ids.tolist(), scores, strict=True)]
    if json:
        print_json({item: picks})
        return
    for place, pick in enumerate(picks, 1):
        print(f"  {place:>3}  {pick['item']}  {pick['score']:.4f}")


def _parts(log: Any, test: float, valid: float) -> dict[str, Any]:
    """The split by the names of its parts; a share of 0 leaves that part out."""
    if test == 0:
        return {"train": log}
    if valid == 0:
        return dict(zip(("train", "test"), log.split_last(test), strict=True))
    return dict(zip(("train", "valid", "test"), log.split_last(test, valid=valid), strict=True))


def _like(ids: Any, text: str) -> Any:
    """What was typed, in the type of the log's ids."""
    import numpy as np

    if np.issubdtype(ids.dtype, np.integer) and text.lstrip("-").isdigit():
        return int(text)
    return text


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    for command in (fit, evaluate, recommend, similar):
        app.command()(command)
