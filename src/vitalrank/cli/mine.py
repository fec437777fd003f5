"""``mine``: hard negatives for vectors in files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vitalrank._util.display import printable
from vitalrank.cli import options
from vitalrank.cli.output import print_json


def mine(
    queries: Annotated[Path, typer.Argument(help="Vectors of the queries: .npy, .npz, .safetensors or .parquet.")],
    items: Annotated[Path, typer.Argument(help="Vectors of the items, of the same kinds.")],
    positives: Annotated[Path, typer.Argument(help="Row numbers: an item per query, or pairs; .npy or .parquet.")],
    out: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    k: Annotated[int, typer.Option(help="Negatives per pair.")] = 1,
    sampler: Annotated[
        str | None, typer.Option(help="Draw by this sampler instead of taking the best by rank.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the sampler, NAME=VALUE; repeatable.")
    ] = None,
    range_min: Annotated[int, typer.Option(help="Number of best candidates to skip.")] = 0,
    range_max: Annotated[int | None, typer.Option(help="Number of best candidates to consider.")] = None,
    max_score: Annotated[float | None, typer.Option(help="Highest score of a negative.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Lowest score of a negative.")] = None,
    absolute_margin: Annotated[float | None, typer.Option(help="Minimum distance below the positive's score.")] = None,
    relative_margin: Annotated[float | None, typer.Option(help="The same, relative to the positive's score.")] = None,
    similarity: Annotated[str, typer.Option(help="cosine or dot.")] = "cosine",
    seed: Annotated[int, typer.Option(help="Seed of the sampler's draws.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Maximum number of threads.", show_default="all cores")] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Mine hard negatives for vectors of any encoder, and write them as triplets."""
    from vitalrank.cli.choices import make_sampler
    from vitalrank.errors import SettingError
    from vitalrank.mining import mine_to

    if set_ and sampler is None:
        raise SettingError("--set is for a sampler; give --sampler too, or leave it out.")
    summary = mine_to(
        out, queries, items, positives, k, sampler=None if sampler is None else make_sampler(sampler, set_ or []),
        seed=seed, threads=threads, force=force, range_min=range_min, range_max=range_max, max_score=max_score,
        min_score=min_score, absolute_margin=absolute_margin, relative_margin=relative_margin, similarity=similarity,
    )  # fmt: skip
    if json:
        print_json({"file": str(out), **asdict(summary)})
        return
    typer.echo(f"{summary.negatives:,} negatives for {summary.pairs:,} pairs in {printable(out)}")
    if summary.short:
        advice = "raise range_max, or loosen limits and margins" if sampler is None else "loosen limits and margins"
        typer.echo(f"{summary.short:,} queries have fewer than {k}; {advice}.")
