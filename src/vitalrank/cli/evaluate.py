"""``evaluate``: a run measured on what it held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vitalrank._util.display import printable
from vitalrank.cli import completion, options
from vitalrank.cli.output import print_json
from vitalrank.cli.ranks import over_ranks
from vitalrank.cli.taking import inputs_of
from vitalrank.distributed.joining import current_group
from vitalrank.distributed.process_group import ProcessGroup

if TYPE_CHECKING:
    from vitalrank.interactions import Interactions
    from vitalrank.models.base import Recommender

_RESAMPLES = 1_000_000


@over_ranks
def evaluate(
    ctx: typer.Context,
    run: options.Run,
    at: Annotated[list[int] | None, typer.Option(help="Length of the lists; repeatable.")] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Break down by degree (of users) or popularity (of items).",
            autocompletion=completion.among(("degree", "popularity")),
        ),
    ] = None,
    on: Annotated[
        str, typer.Option(help="Held-out part: test or valid.", autocompletion=completion.among(("test", "valid")))
    ] = "test",
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help=f"Comma-separated: {' '.join(options.METRICS)}, or all.",
            show_default="those of accuracy, and coverage",
            autocompletion=completion.among(("all", *options.METRICS)),
        ),
    ] = None,
    names: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of items with the categories for calibration.")
    ] = None,
    category: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of --names.")] = None,
    bootstrap: Annotated[
        int, typer.Option(help="Resamples for 95 % intervals; 0 for none.", min=0, max=_RESAMPLES)
    ] = 0,
    device: options.RankingDevice = None,
    json: options.Json = False,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Evaluate the I-th of N ranges of users, to the file --out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --shard: the .npz file that --parts reads.")] = None,
    parts: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Print what all shards in FOLDER found together.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Evaluate a run on its held-out part.

    [bold]vitalrank evaluate runs/a --at 10 --metrics ndcg,novelty,diversity[/]
    [bold]vitalrank evaluate runs/a --shard 3/16 --out parts/03.npz[/]
    """
    import vitalrank as vr
    from vitalrank._util.outputs import check_not_input
    from vitalrank.evaluation.shards import ShardReader, ShardWriter

    if out is not None:
        check_not_input(out, inputs_of(ctx))
    model = vr.load(run)
    if on not in model.held_out:
        raise vr.SettingError(f"{run}: holds out no {on} part; fit again with --{on} above 0.")
    others = [part for name, part in model.held_out.items() if name != on and on == "test"]
    wanted = metrics if metrics in (None, "all") else [name.strip() for name in metrics.split(",")]
    group = _group(shard, out, parts, by is not None or bootstrap > 0)
    lengths, categories = sorted(set(at or (5, 10, 20))), _categories(model, names, category)
    if isinstance(group, ShardWriter) or parts is not None:
        identity = _identity(model, [model.held_out[on], *others], [*lengths, wanted, categories])
        group = group if parts is None else ShardReader(parts, identity)
    result = vr.evaluate(
        model, model.held_out[on], at=lengths, by=by, exclude=others, metrics=wanted, bootstrap=bootstrap,
        device=device, categories=categories, group=group,
    )  # fmt: skip
    if isinstance(group, ShardWriter):
        assert out is not None
        group.write(out, identity, force)
        print_json({"out": str(out), "shard": shard}) if json else print(f"Shard {shard} in {printable(out)}.")
        return
    if json:
        print_json({**result, "groups": result.groups, "intervals": result.intervals})
    else:
        print(result)


def _group(shard: str | None, out: Path | None, parts: Path | None, is_summary: bool) -> ProcessGroup:
    """The group that shares the users: of ranks, or the shards of another scheduler."""
    from vitalrank.errors import SettingError
    from vitalrank.evaluation.shards import ShardWriter

    if (shard is None) != (out is None) or (shard is not None and parts is not None):
        raise SettingError("--shard I/N and --out FILE go together, and --parts FOLDER stands alone.")
    if shard is not None and is_summary:
        raise SettingError("--by and --bootstrap are of all users together; give them with --parts.")
    if (shard is not None or parts is not None) and current_group():
        raise SettingError("--shard and --parts are for processes that know nothing of each other; leave out --ranks.")
    return current_group() if shard is None else ShardWriter(shard)


def _identity(model: Recommender, logs: Sequence[Interactions], asked: Sequence[Any]) -> dict[str, str]:
    """What all shards must agree on."""
    import numpy as np

    from vitalrank.interactions.lookup import arrays_digest

    vectors = arrays_digest(np.atleast_1d(model.tensors()[name]) for name in sorted(model.tensors()))
    return {
        "model": f"{model!r} {vectors}",
        "log": " ".join(log.fingerprint for log in (model.train, *logs)),
        "question": repr(list(asked)),
    }


def _categories(model: Recommender, names: Path | None, category: str | None) -> list[str] | None:
    """The category of each item of the model's log, by a table of items."""
    from vitalrank.errors import SettingError
    from vitalrank.serving import ItemTable

    if names is None and category is None:
        return None
    if names is None or category is None:
        raise SettingError("--names FILE and --category COLUMN go together: the table of items and its column.")
    return ItemTable.read(names).values(category, model.train.item_ids.tolist())
