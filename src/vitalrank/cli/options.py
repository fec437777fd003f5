"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

UserColumn = Annotated[str | None, typer.Option(help="Name of the user column.")]
ItemColumn = Annotated[str | None, typer.Option(help="Name of the item column.")]
TimeColumn = Annotated[str | None, typer.Option(help="Name of the time column.")]
MinUser = Annotated[int, typer.Option(help="Keep users with at least so many interactions.")]
MinItem = Annotated[int, typer.Option(help="Keep items with at least so many interactions.")]
Epochs = Annotated[int, typer.Option(help="Passes over the log.")]
LearningRate = Annotated[float, typer.Option(help="Learning rate.")]
Reg = Annotated[float, typer.Option(help="L2 weight, per occurrence.")]
Loss = Annotated[str, typer.Option(help="bpr, hinge or cross_entropy.")]
HingeMargin = Annotated[float, typer.Option(help="Margin of the hinge loss.")]
Optimizer = Annotated[str, typer.Option(help="adam, adagrad or sgd.")]
BatchSize = Annotated[int | None, typer.Option(help="Positives per step.", show_default="by the size of the log")]
Negatives = Annotated[int, typer.Option(help="Negatives per positive.")]
Schedule = Annotated[str, typer.Option(help="constant, linear or cosine.")]
Patience = Annotated[int | None, typer.Option(help="Stop after so many evaluations without gain.")]
ValidEvery = Annotated[int, typer.Option(help="Epochs between two evaluations.")]
Metric = Annotated[str, typer.Option(help="What valid is measured by.")]
Threads = Annotated[int | None, typer.Option(help="At most so many threads.")]
Device = Annotated[str, typer.Option(help="cpu.")]
OnBad = Annotated[str, typer.Option(help="A line that cannot be read: raise or skip.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
