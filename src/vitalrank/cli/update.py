"""``update``: a run folder goes on with the rows of a new day."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vitalrank._util.display import printable
from vitalrank.cli import options, taking
from vitalrank.cli.output import print_json
from vitalrank.config import CHECKPOINT_SECONDS

if TYPE_CHECKING:
    from vitalrank.interactions import Interactions

_GIVEN = ("epochs", "lr", "seed", "threads", "device")  # options that go to fit


@taking.takes(options.FORMAT)
def update(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that fit or update wrote.")],
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The new rows, with ids as in the log of RUN.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the updated run.", show_default="replace RUN")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs over all rows.", show_default="15% of the first, at least 3")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.", show_default="that of RUN")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.", show_default="that of RUN")] = None,
    threads: Annotated[int | None, typer.Option(help="Maximum number of threads.", show_default="all cores")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:N or auto.", show_default="cpu")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the update in --out.")] = False,
    progress: Annotated[bool | None, options.output(help="Show a progress bar.", show_default="on a terminal")] = None,
    json: options.Json = False,
) -> None:
    """Add the rows of LOG to a run and train on for a few epochs.

    Known users and items keep their vectors; new ones get first vectors from their interactions. A model without steps
    (itemknn, als, ...) is fitted again on all rows. RUN stays as it is until the updated model is whole.

    [bold]vitalrank update runs/a today.tsv[/]
    """
    import vitalrank as vr
    from vitalrank._util.locks import only_writer
    from vitalrank.checkpoint import is_saved, read_meta

    if resume and out is None:
        raise vr.SettingError("--resume continues an update in a folder of its own; give --out.")
    if out is not None and not resume and is_saved(out):
        raise vr.StorageError(f"{out}: holds a run already; resume it (--resume) or choose another folder.")
    read_meta(run)  # before a lock makes a folder
    with nullcontext() if out is not None else only_writer(run.resolve()):  # two updates of a run follow each other
        earlier, model = _updated(ctx, run, log, out, resume, progress)
    grown = model.train
    counts = {
        "new_users": grown.n_users - earlier.train.n_users,
        "new_items": grown.n_items - earlier.train.n_items,
        "new_rows": len(grown) - len(earlier.train),
    }
    if json:
        print_json({"run": str(out or run), "model": repr(model), **counts, "trained_on": len(grown)})
        return
    users, items, rows = counts.values()
    typer.echo(printable(f"{rows:,} new rows, {users:,} new users and {items:,} new items; {model!r} updated."))
    typer.echo(printable(f"Saved in {out or run}. Next: vitalrank inspect {quote(str(out or run))}"))


def _updated(
    ctx: typer.Context, run: Path, log: Path, out: Path | None, resume: bool, progress: bool | None
) -> tuple[Any, Any]:
    """The model of the run, and the one that was trained on and saved."""
    import vitalrank as vr
    from vitalrank.models import is_trained

    earlier = vr.load(run)
    more = vr.read(log, like=earlier.train, **options.format_of(ctx))
    grown = _extended(earlier.train, more, run, log, ctx.params["repeats"])
    model: Any = type(earlier)(**earlier.settings())
    left = {name: _on_grown_ids(part, grown) for name, part in earlier.held_out.items()}
    model.held_out = {name: part for name, part in left.items() if len(part)}
    given: dict[str, Any] = {name: ctx.params[name] for name in _GIVEN if ctx.params[name] is not None}
    fit = model.fit
    if is_trained(earlier):
        given |= {"progress": progress, "checkpoint_seconds": CHECKPOINT_SECONDS}
        if out is not None:
            fit(grown, start=run, checkpoint=out, resume=resume, **given)
        else:
            with _replaced_at_the_end(run) as folder:
                fit(grown, start=run, checkpoint=folder, **given)
    else:
        if given.keys() - {"threads"}:
            raise vr.SettingError(f"{earlier!r} has no steps; leave out --{min(given.keys() - {'threads'})}.")
        fit(grown)
        model.save(run if out is None else out)
    return earlier, model


def _extended(known: Interactions, more: Interactions, run: Path, log: Path, repeats: str) -> Interactions:
    """The log of the run with the new rows; pairs that both have are treated as those within LOG are."""
    from vitalrank.errors import DataError

    try:
        grown = known.extend(more, repeats={"count": "sum"}.get(repeats, repeats))  # LOG's rows are counted already
    except DataError as error:
        raise DataError(f"{log} cannot be added to the log of {run}. {error}") from error
    if grown.fingerprint == known.fingerprint:
        raise DataError(f"{log} has no row that the log of {run} does not have; nothing was changed.")
    new_users, new_items = grown.n_users - known.n_users, grown.n_items - known.n_items
    if new_users == more.n_users and new_items == more.n_items:
        raise DataError(
            f"{log} shares no user and no item with the log of {run}; nothing was changed. Give rows with the same "
            "ids, or fit a model of its own."
        )
    return grown


def _on_grown_ids(part: Interactions, grown: Interactions) -> Interactions:
    """A held-out part on the ids of the grown log, without the rows that are trained on from now on."""
    import numpy as np

    from vitalrank.interactions import Interactions

    indptr = np.concatenate([part.indptr, np.full(grown.n_users - part.n_users, len(part), np.int64)])
    wide = Interactions(
        indptr, part.items, part.times, grown.user_ids, grown.item_ids, weights=part.weights
    )  # fmt: skip
    trained = np.asarray(grown.csr[wide.users, wide.items]).ravel() > 0 if len(wide) else np.zeros(0, bool)
    return wide._rows(~trained) if trained.any() else wide


@contextmanager
def _replaced_at_the_end(run: Path) -> Iterator[Path]:
    """A temporary folder to train in, whose whole model replaces that of ``run`` at the end."""
    from vitalrank.checkpoint import new_temporary, read_folder, write_folder

    folder = run.resolve()
    temporary = new_temporary(folder)  # inside, where the next writer removes what a killed process leaves
    try:
        yield temporary / "run"
        saved = read_folder(temporary / "run")
        write_folder(folder, saved.meta, saved.tensors, saved.ids)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
