"""``recommend``, ``similar``, ``explain``, ``fold-in``, ``export`` and ``serve``: a run folder gives lists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vitalrank._util.checks import check_count
from vitalrank._util.display import printable
from vitalrank.cli import completion, options
from vitalrank.cli.item_lists import filters_of, id_like, picks_of, print_lists, print_picks, read_histories
from vitalrank.cli.output import print_json
from vitalrank.cli.ranks import over_ranks
from vitalrank.cli.taking import inputs_of
from vitalrank.distributed.joining import current_group

Names = Annotated[Path | None, typer.Option(help="Table of items: .csv .tsv .parquet with ids, names, categories.")]
Items = Annotated[Path | None, typer.Option(help="File of allowed item ids, one per line.")]
ExcludeItems = Annotated[Path | None, typer.Option(help="File of excluded item ids, one per line.")]
Within = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN[=VALUE]",
        help="Only items of this category in --names; without VALUE, of the user's or item's own.",
    ),
]
Seen = Annotated[bool, typer.Option("--seen", help="List seen items too.")]
Unknown = Annotated[
    str,
    typer.Option(
        help="For a user who is not in the log: error or popular.",
        autocompletion=completion.among(("error", "popular")),
    ),
]


@over_ranks
def recommend(
    ctx: typer.Context,
    run: options.Run,
    user: Annotated[list[str] | None, typer.Option(help="A user of the log; repeatable.")] = None,
    n: options.ListLength = 10,
    unknown: Unknown = "error",
    device: options.RankingDevice = None,
    json: options.Json = False,
    names: Names = None,
    items: Items = None,
    exclude_items: ExcludeItems = None,
    within: Within = None,
    seen: Seen = False,
    history: Annotated[Path | None, typer.Option(help="Histories of people outside the log, as for fold-in.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Every user of the log, to the Parquet file --out.")] = False,
    out: Annotated[Path | None, typer.Option(help="With --all: user, rank, item, score; written as it goes.")] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="With --all: the I-th of N ranges of users.")] = None,
    force: options.Force = False,
) -> None:
    """List the best items that a user has not seen: neither in what the run was trained on nor in what it held out."""
    import vitalrank as vr

    if (bool(user) + (history is not None) + everybody) != 1:
        raise vr.SettingError("give one of --user, --history or --all.")
    if everybody != (out is not None) or (shard is not None and not everybody):
        raise vr.SettingError("--all needs --out FILE; --out and --shard need --all.")
    if current_group() and not everybody:
        raise vr.SettingError("ranks share the users of --all; leave out --ranks and torchrun for a few.")
    if history is not None:
        return fold_in(run, history, n, json, names, items, exclude_items, within, seen)
    model = vr.load(run)
    table, filters = filters_of(model, names, items, exclude_items, within, seen)
    held_out = list(model.held_out.values())
    if out is not None:
        from vitalrank._util.outputs import check_not_input
        from vitalrank.serving.streaming import recommend_all

        check_not_input(out, inputs_of(ctx))
        if filters:
            raise vr.SettingError("--all takes no filters; filter the file, or ask for users by --user.")
        rows = recommend_all(
            model, out, n, exclude=held_out, shard=shard, device=device, force=force, group=current_group()
        )
        print_json({"out": str(out), "rows": rows}) if json else print(f"{rows:,} rows in {printable(out)}.")
        return None
    users = [id_like(model.train.user_ids, one) for one in user or ()]
    found = model.recommend(users, n=n, exclude=held_out, unknown=unknown, device=device, **filters)
    return print_lists(users, found, table, json)


def fold_in(
    run: options.Run,
    history: Annotated[
        Path,
        typer.Option(
            help="Histories, one per line: a JSON list of ids (.jsonl), or ids between spaces, commas or tabs."
        ),
    ],
    n: options.ListLength = 10,
    json: options.Json = False,
    names: Names = None,
    items: Items = None,
    exclude_items: ExcludeItems = None,
    within: Within = None,
    seen: Seen = False,
) -> None:
    """Recommend to people outside the log, from their histories, by the line; unknown items are counted."""
    import vitalrank as vr

    model = vr.load(run)
    table, filters = filters_of(model, names, items, exclude_items, within, seen)
    histories = read_histories(history, model.train.item_ids)
    print_lists(histories, model.fold_in(list(histories.values()), n=n, unknown="skip", **filters), table, json)


def similar(
    run: options.Run,
    item: Annotated[list[str], typer.Option(help="An item of the log; repeatable.")],
    n: options.ListLength = 10,
    json: options.Json = False,
    names: Names = None,
    items: Items = None,
    exclude_items: ExcludeItems = None,
    within: Within = None,
) -> None:
    """List the most similar items of an item."""
    import vitalrank as vr

    model = vr.load(run)
    table, filters = filters_of(model, names, items, exclude_items, within)
    asked = [id_like(model.train.item_ids, one) for one in item]
    print_lists(item, model.similar_items(asked, n=n, **filters), table, json, bare=len(item) == 1)


def explain(
    run: options.Run,
    user: Annotated[str, typer.Option(help="A user of the log.")],
    item: Annotated[str, typer.Option(help="An item of the log.")],
    n: Annotated[int, typer.Option(help="Items to list.")] = 10,
    json: options.Json = False,
    names: Names = None,
) -> None:
    """Explain a recommendation: what each of the user's items adds to the score of an item."""
    import vitalrank as vr

    check_count("n", n)
    model = vr.load(run)
    table = None if names is None else vr.serving.ItemTable.read(names)
    why = model.explain(id_like(model.train.user_ids, user), id_like(model.train.item_ids, item))
    picks = picks_of(why.items, why.contributions, table)
    if json:
        print_json({"item": why.item, "score": why.score, "because": picks, "rest": why.rest})
        return
    print(f"{printable(why.item)}: {why.score:.4f}")
    print_picks(picks[:n])
    others = sum(pick["score"] for pick in picks[n:])
    print(f"       {len(picks[n:])} more items {others:+.4f}, not from single items {why.rest:+.4f}")


def export(
    run: options.Run,
    out: Annotated[Path, typer.Option(help="Folder; made if missing.")],
    format: Annotated[str, typer.Option(help="numpy, parquet, safetensors, faiss or hnswlib.")] = "numpy",
    force: options.Force = False,
) -> None:
    """Write user and item vectors for an inner-product index, or for other languages."""
    import vitalrank as vr

    vr.load(run).export(out, format, force)
    print(f"Vectors in {printable(out)}.")


def serve(
    run: options.Run,
    names: Names = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[Path | None, typer.Option(help="File of the token that callers must send.")] = None,
    window: Annotated[
        float, typer.Option(help="Milliseconds to wait for more requests of a batch.", min=0, max=100)
    ] = 1.0,
    concurrent: Annotated[int, typer.Option(help="Maximum number of concurrent requests.", min=1)] = 512,
) -> None:
    """Answer requests over HTTP, with a page for people; a run folder that is replaced is loaded at once."""
    import vitalrank as vr
    from vitalrank._util.lazy import load_target
    from vitalrank.checkpoint import generation

    running: Any = load_target("serving.web.running")
    web: Any = load_target("serving.web.app")
    from vitalrank.serving.web.limits import Limits
    from vitalrank.serving.web.metrics import Metrics
    from vitalrank.serving.web.reloading import Reloader
    from vitalrank.serving.web.snapshot import Snapshot

    token = None if token_file is None else running.read_token(token_file)
    running.check_open(host, token)

    def load() -> Snapshot:
        model = vr.load(run)
        return Snapshot(model, model.held_out, None if names is None else vr.serving.ItemTable.read(names))

    reloader = Reloader(load, lambda: generation(run), Metrics())
    limits = Limits(concurrent=concurrent)
    settings = web.ServerSettings(limits, token, running.hosts_of(host, token), window / 1000)
    listening = running.listen(host, port)
    kind = type(reloader.current.model).__name__
    ready = f"{kind} on {running.address_of(listening)}, its API on /docs; Ctrl-C stops."
    running.run_server(web.make_app(reloader, settings), listening, lambda: print(ready, flush=True))
