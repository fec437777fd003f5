"""``demo``: log, training, comparison and page on a synthetic log, in under a minute."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from vitalrank.cli import options
from vitalrank.cli.output import print_json

if TYPE_CHECKING:
    from vitalrank.comparing import Method, Outcome, Results, RunCallback
    from vitalrank.history import Record
    from vitalrank.models.base import Recommender
    from vitalrank.tuning import Tuned

NAMES = ("uni", "pop", "dns", "lfm-w", "vins")


@dataclass
class DemoLine:
    """One sampler's row of the live table."""

    name: str
    epoch: int = 0
    loss: float | None = None
    tries: float | None = None
    seconds: float = 0.0
    valid: float | None = None
    test: float | None = None
    tail: float | None = None

    def cells(self) -> list[str]:
        numbers = {
            ".3f": [self.loss],
            ".1f": [self.tries, self.seconds or None],
            ".4f": [self.valid, self.test],
            ".0%": [self.tail],
        }
        written = ["" if value is None else f"{value:{form}}" for form, values in numbers.items() for value in values]
        return [self.name, str(self.epoch or ""), *written]


def demo(
    seed: Annotated[int, typer.Option(help="Random seed of the log and the training.")] = 0,
    epochs: Annotated[int, typer.Option(help="Epochs of each sampler.")] = 40,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page and the models; a new temporary one by default.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Train matrix factorization with five samplers on a synthetic log, summarize the results, and write a page."""
    from vitalrank.report.page import write_report

    console = Console(quiet=json)
    folder = Path(tempfile.mkdtemp(prefix="vitalrank-demo-")) if out is None else out
    results = _train(console, seed, epochs, folder)
    page = write_report(results, folder / "report.html", title="The vitalrank demo: five negative samplers on one log")
    best = folder / "runs" / f"{results.rows[0].label}-seed{seed}"
    if json:
        _print_json(results, page, best)
    else:
        _summarize(console, results, page, best)


def _train(console: Console, seed: int, epochs: int, folder: Path) -> Results:
    """Describe the experiment and run it."""
    import vitalrank as vr
    from vitalrank.comparing import compare
    from vitalrank.samplers import find_sampler

    log = vr.datasets.synthetic(users=2000, items=1500, interactions=60_000, seed=seed)
    size = f"{log.n_users:,} users, {log.n_items:,} items, {len(log):,} interactions"
    console.print(f"A log with planted tastes and a long tail: {size}.", highlight=False)
    console.print(
        "Each user's last 20 % is the test set; a tenth of the rest is the validation set, which picks the epoch.",
        highlight=False,
    )
    console.print("The first run also compiles the kernels, which takes longer than the training.\n", style="dim")
    config = vr.TrainConfig(epochs=epochs, patience=epochs)
    samplers = {name: find_sampler(name)() for name in NAMES}
    with _table(console, [DemoLine(name) for name in NAMES]) as report:
        return compare(
            log, samplers, {"mf": lambda: vr.MF(dim=32)}, seeds=[seed], config=config, out=folder, keep_models=True,
            baselines=(), callback=report,
        )  # fmt: skip


def _print_json(results: Results, page: Path, model: Path) -> None:
    from vitalrank.comparing.tables import flat

    ranking = [flat(row) for row in results.rows]
    print_json({"report": str(page.resolve()), "model": str(model), "ranking": ranking, "lessons": lessons(results)})


def _summarize(console: Console, results: Results, page: Path, model: Path) -> None:
    import vitalrank as vr

    _recommend(console, vr.load(model), results.rows[0].label)
    for sentence in lessons(results):
        console.print(sentence, highlight=False)
    console.print(f"\nThe whole report: {page.resolve()}", soft_wrap=True, highlight=False)
    console.print(f"A closer look at one run: vitalrank inspect {model}", soft_wrap=True, highlight=False)
    console.print("Your own log: vitalrank compare LOG --out runs/cmp", highlight=False)


def lessons(results: Results) -> list[str]:
    """Three sentences, each from the numbers of this very run."""
    from vitalrank.comparing.results import paired_p
    from vitalrank.comparing.tables import p_text
    from vitalrank.report.page import summary_sentence

    runs = {row.label: row.runs[0] for row in results.rows}
    vins, uniform, warp = runs["vins"], runs["uni"], runs["lfm-w"]
    gain = vins.metrics[results.metric] - uniform.metrics[results.metric]
    p = p_text(paired_p(vins.per_user, uniform.per_user))
    tails = [run.inspection["exposure"]["tail"] for run in (vins, uniform)]
    return [
        f"Quality: {summary_sentence(results)}",
        f"Hard negatives: vins against uni is {gain:+.4f} NDCG@10 (paired p {'' if '<' in p else '= '}{p}), and in the "
        f"last epoch it took {vins.records[-1]['tries']:.1f} tries to find one, lfm-w {warp.records[-1]['tries']:.1f}.",
        f"Popularity: tail items, a third of the log, get {tails[0]:.0%} of the places with vins and {tails[1]:.0%} "
        "with uni.",
    ]


@contextmanager
def _table(console: Console, lines: Sequence[DemoLine]) -> Iterator[RunCallback]:
    """A table that is updated during training on a terminal, and printed once in a pipe."""
    from vitalrank.comparing import Outcome

    by_name = {line.name: line for line in lines}
    live = Live(_drawn(lines), console=console, refresh_per_second=8) if console.is_terminal else None

    def report(method: Method, seed: int, news: Record | Outcome | Tuned) -> None:
        line = by_name[method.label]
        if isinstance(news, Outcome):
            line.test, line.tail = news.metrics["ndcg@10"], news.inspection["exposure"]["tail"]
            line.seconds = news.seconds
        if not isinstance(news, (Outcome, dict)):
            return
        last = news.records[-1] if isinstance(news, Outcome) else news
        line.epoch, line.loss, line.tries = last["epoch"], last["loss"], last["tries"]
        line.valid = last.get("ndcg@10", line.valid)
        if not isinstance(news, Outcome):
            line.seconds += news["seconds"]
        if live is not None:
            live.update(_drawn(lines))

    if live is None:
        yield report
        console.print(_drawn(lines))
        return
    with live:
        yield report


def _drawn(lines: Sequence[DemoLine]) -> Table:
    table = Table(title="NDCG@10 by negative sampler (matrix factorization, dim 32)", title_justify="left")
    table.add_column("sampler")
    for name in ("epoch", "loss", "tries", "seconds", "valid", "test", "tail in lists"):
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(*line.cells())
    return table


def _recommend(console: Console, model: Recommender, name: str) -> None:
    user = model.train.user_ids[0]
    ids, scores = model.recommend([user], n=5, exclude=list(model.held_out.values()))
    picks = ", ".join(f"{item} ({score:.2f})" for item, score in zip(ids[0], scores[0], strict=True))
    console.print(f"\nFor user {user} the model trained with {name} recommends items {picks}.\n", highlight=False)
