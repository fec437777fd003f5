"""``card``: a README on a run, and its way to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vitalrank.cli import options
from vitalrank.cli.taking import inputs_of


def card(
    ctx: typer.Context,
    run: options.Run,
    out: Annotated[
        Path | None, typer.Option(help="Write it there: a file, or a folder for its README.md.", show_default="printed")
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Upload the run with its card to the Hugging Face Hub instead."),
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="With --push: let everybody read a new repository.")] = False,
    force: options.Force = False,
) -> None:
    """Write a model card: data, split, settings and figures of a run.

    [bold]vitalrank card runs/a --out runs/a[/]
    """
    import vitalrank as vr
    from vitalrank._util.outputs import check_not_input

    if public and push is None:
        raise vr.SettingError("--public is for --push OWNER/NAME; give that too, or leave it out.")
    if out is not None:
        check_not_input(out, inputs_of(ctx))
    model = vr.load(run)
    if push is not None:
        typer.echo(f"Uploaded. Load it with vr.load({model.push(push, private=not public)!r}).")
    if out is not None:
        model.card(out, force=force)
    elif push is None:
        typer.echo(model.card(), nl=False)
