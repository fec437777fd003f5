"""Options that several commands share, and how a command takes them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from vitalrank import registry
from vitalrank.cli.completion import among
from vitalrank.cli.config import from_file
from vitalrank.cli.taking import is_given, is_typed
from vitalrank.config import CORRECTIONS, PRECISIONS, TrainConfig
from vitalrank.errors import SettingError
from vitalrank.schedules import SCHEDULES

SAMPLERS = tuple(registry.SAMPLERS)
MODELS = tuple(name for name, entry in registry.MODELS.items() if not entry.needs_modules)
TUNABLE = tuple(name for name in MODELS if name != "mostpopular")  # models with settings
BASELINES = tuple(name for name in ("mostpopular", "itemknn", "ease") if name in registry.MODELS)
METRICS = tuple(registry.METRICS)
LOSSES, OPTIMIZERS = tuple(registry.LOSSES), tuple(registry.OPTIMIZERS)
DEVICES = ("cpu", "cuda", "auto")
SPLIT_NAMES = ("last", "loo", "time", "random")


def one_of(names: tuple[str, ...]) -> str:
    """Names as a choice in a sentence.

    Examples
    --------
    >>> one_of(("adam", "adagrad", "sgd"))
    'adam, adagrad or sgd'
    """
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _valid_share(ctx: typer.Context, share: float | None) -> float:
    """The share that was given, or the usual one; a typed --test 0 trains on everything unless --valid is typed too."""
    on_everything = ctx.params.get("test") == 0
    if share is None or (on_everything and is_typed(ctx, "test") and not is_typed(ctx, "valid")):
        return 0.0 if on_everything else 0.1
    return share


_reading = partial(typer.Option, rich_help_panel="The log")
_training = partial(typer.Option, rich_help_panel="Training")
output = partial(typer.Option, rich_help_panel="Output")
_file = partial(typer.Option, rich_help_panel="Settings from a file", dir_okay=False)

Log = Annotated[
    Path,
    typer.Argument(
        metavar="LOG",
        help="The log: .csv .tsv .jsonl .parquet .inter, also .gz/.zst; a folder of them, or of data prepare; a URL.",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A folder that fit wrote.")]
ListLength = Annotated[int, typer.Option(help="Length of the list.")]
Model = Annotated[str, typer.Option(help=f"{' '.join(MODELS)}.", autocompletion=among(MODELS))]
TunableModel = Annotated[str, typer.Option(help=f"{' '.join(TUNABLE)}.", autocompletion=among(TUNABLE))]
SamplerName = Annotated[
    str | None,
    typer.Option(
        help=f"{' '.join(SAMPLERS)}.",
        show_default="the model's own, vins for most",
        autocompletion=among(SAMPLERS),
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Model (dim=32) or sampler (beta=0.25) setting; repeatable."),
]
UserColumn = Annotated[str | None, _reading(metavar="COLUMN", help="User column: its name, or its number from 0.")]
ItemColumn = Annotated[str | None, _reading(metavar="COLUMN", help="Item column.")]
TimeColumn = Annotated[str | None, _reading(metavar="COLUMN", help="Time column.")]
WeightColumn = Annotated[
    str | None, _reading(metavar="COLUMN", help="Weight column, which scales each row's loss.", show_default="none")
]
Repeats = Annotated[
    str,
    _reading(
        help="Repeated pairs: keep the first or the last, sum their weights, or count them.",
        autocompletion=among(("first", "last", "sum", "count")),
    ),
]
NoTime = Annotated[bool, _reading("--no-time", help="Ignore timestamps; keep the order of the file.")]
Separator = Annotated[str | None, _reading(help="Field separator.", show_default="detected")]
Header = Annotated[bool | None, _reading(help="Whether the first line is a header.", show_default="detected")]
MinUser = Annotated[int, _reading(help="Minimum interactions of a user; iterated with --min-item.")]
MinItem = Annotated[int, _reading(help="Minimum interactions of an item.")]
OnBad = Annotated[
    str, _reading(help="What to do with a malformed line: raise or skip.", autocompletion=among(("raise", "skip")))
]
Test = Annotated[float, _reading(help="Share of each user's interactions held out for testing, the latest ones.")]
Split = Annotated[
    str,
    _reading(
        help=f"What is held out: each user's last rows, the last one (loo), the latest by time, or random rows: "
        f"{one_of(SPLIT_NAMES)}.",
        autocompletion=among(SPLIT_NAMES),
    ),
]
Cutoff = Annotated[
    str | None,
    _reading(metavar="TIME", help="With --split time: a number or an ISO date from which on rows are for testing."),
]
TestLog = Annotated[
    Path | None, _reading(metavar="FILE", help="A separate test log in the format of LOG, instead of --test.")
]
Valid = Annotated[
    float | None,
    _reading(
        help="Share of the rest held out for validation, which picks the epoch.",
        show_default="0.1, or 0 with --test 0",
        callback=_valid_share,
    ),
]
Epochs = Annotated[int, _training(help="Maximum number of epochs.")]
LearningRate = Annotated[float, _training(help="Learning rate.")]
Reg = Annotated[float, _training(help="L2 regularization, per occurrence of a row in a batch.")]
Loss = Annotated[str, _training(help=f"{one_of(LOSSES)}.", autocompletion=among(LOSSES))]
HingeMargin = Annotated[float, _training(help="Margin of the hinge loss.")]
Optimizer = Annotated[str, _training(help=f"{one_of(OPTIMIZERS)}.", autocompletion=among(OPTIMIZERS))]
BatchSize = Annotated[int | None, _training(help="Positives per step.", show_default="by the size of the log")]
Negatives = Annotated[int, _training(help="Negatives per positive.")]
Schedule = Annotated[
    str, _training(help=f"Learning-rate schedule: {one_of(tuple(SCHEDULES))}.", autocompletion=among(tuple(SCHEDULES)))
]
Patience = Annotated[
    int | None,
    _training(help="Evaluations without improvement before training ends.", show_default="10 at a constant rate"),
]
ValidEvery = Annotated[int, _training(help="Epochs between evaluations on valid.")]
Metric = Annotated[
    str,
    _training(
        help="Metric on valid that picks the epoch.",
        autocompletion=among(tuple(f"{name}@10" for name in METRICS[: METRICS.index("coverage")])),
    ),
]
Threads = Annotated[int | None, _training(help="Maximum number of threads.", show_default="all cores")]
Device = Annotated[str, _training(help="cpu, cuda, cuda:N or auto.", autocompletion=among(DEVICES))]
RankingDevice = Annotated[
    str | None,
    typer.Option("--device", help="Where to rank: cpu, cuda, cuda:N or auto.", autocompletion=among(DEVICES)),
]
Precision = Annotated[
    str, _training(help="float32, or bfloat16 for the layers of a torch model.", autocompletion=among(PRECISIONS))
]
Temperature = Annotated[float, _training(help="The loss divides scores by it.")]
Correct = Annotated[
    str,
    _training(
        help=f"Correction of a softmax loss for the sampler's proposal: {one_of(CORRECTIONS)}.",
        autocompletion=among(CORRECTIONS),
    ),
]
Calibration = Annotated[float, _training(help="Calibration of the gbce loss, from 0 (cross_entropy) to 1.")]
Bilateral = Annotated[float, _training(help="Weight of the negatives in the bsl loss.")]
Blocks = Annotated[int | None, _training(help="Blocks of items, for tables of mf that fit no single machine.")]
Json = Annotated[bool, output("--json", help="Print one JSON object.")]
Config = Annotated[
    Path | None,
    _file(help="Settings to start from (TOML); options that are typed win.", callback=from_file, is_eager=True),
]
SaveConfig = Annotated[Path | None, _file(help="Write the settings in force there, for --config.")]
Force = Annotated[bool, output("--force", help="Replace existing files that vitalrank did not write.")]

# Name -> annotation and default, in the order of --help.
FORMAT = {
    "user": (UserColumn, None),
    "item": (ItemColumn, None),
    "time": (TimeColumn, None),
    "weight": (WeightColumn, None),
    "repeats": (Repeats, "first"),
    "no_time": (NoTime, False),
    "sep": (Separator, None),
    "header": (Header, None),
    "on_bad": (OnBad, "raise"),
}
READING = {
    **FORMAT,
    "min_user": (MinUser, 0),
    "min_item": (MinItem, 0),
    "test": (Test, 0.2),
    "valid": (Valid, None),
}
SPLIT = {"split": (Split, "last"), "cutoff": (Cutoff, None), "test_log": (TestLog, None)}
TRAINING = {
    "epochs": (Epochs, TrainConfig.epochs),
    "lr": (LearningRate, TrainConfig.lr),
    "reg": (Reg, TrainConfig.reg),
    "loss": (Loss, TrainConfig.loss),
    "hinge_margin": (HingeMargin, TrainConfig.margin),
    "optimizer": (Optimizer, TrainConfig.optimizer),
    "batch": (BatchSize, TrainConfig.batch),
    "negatives": (Negatives, TrainConfig.negatives),
    "schedule": (Schedule, TrainConfig.schedule),
    "patience": (Patience, TrainConfig.patience),
    "valid_every": (ValidEvery, TrainConfig.valid_every),
    "metric": (Metric, TrainConfig.metric),
    "threads": (Threads, TrainConfig.threads),
    "device": (Device, TrainConfig.device),
    "precision": (Precision, TrainConfig.precision),
    "temperature": (Temperature, TrainConfig.temperature),
    "correct": (Correct, TrainConfig.correct),
    "calibration": (Calibration, TrainConfig.calibration),
    "bilateral": (Bilateral, TrainConfig.bilateral),
    "blocks": (Blocks, TrainConfig.blocks),
}
FILES = {"config": (Config, None), "save_config": (SaveConfig, None), "force": (Force, False), "json": (Json, False)}

# Options of the library's fit that a flag of another name stands for.
FIELDS = {name: {"hinge_margin": "margin"}.get(name, name) for name in (*TRAINING, "seed")}

KEEPING = ("checkpoint_epochs", "checkpoint_seconds", "resume", "progress")
STEPS = (*KEEPING, "count", "refit")  # what else only a model with steps can be asked


def format_of(ctx: typer.Context) -> dict[str, Any]:
    """What the options of ``FORMAT`` say, as ``vitalrank.read`` takes it."""
    given = {name: ctx.params[name] for name in FORMAT if name != "no_time" and ctx.params[name] is not None}
    if ctx.params["no_time"] and "time" in given:
        raise SettingError(f"--time {given['time']} and --no-time exclude each other; leave out one.")
    for name in given.keys() & {"user", "item", "time", "weight"}:
        given[name] = column(given[name])
    return {**given, "time": False} if ctx.params["no_time"] else given


def column(text: str) -> str | int:
    """A column as it is typed: digits are a number.

    Examples
    --------
    >>> column("user_id"), column("3")
    ('user_id', 3)
    """
    return int(text) if text.isdecimal() else text


def training_of(ctx: typer.Context, given: bool = False) -> dict[str, Any]:
    """The training options by their names in the library, all or only those that were given."""
    names = [name for name in FIELDS if name in ctx.params and (not given or is_given(ctx, name))]
    return {FIELDS[name]: ctx.params[name] for name in names}
