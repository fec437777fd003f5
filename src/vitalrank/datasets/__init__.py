"""Logs to start from: a synthetic one, and the known data sets fetched, read and prepared."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from vitalrank._util.display import quoted
from vitalrank._util.downloads import OnBytes, cache_folder, download
from vitalrank._util.files import check_output
from vitalrank._util.outputs import check_not_input
from vitalrank._util.parquet import is_marked_parquet, parquet_writer
from vitalrank._util.typing import Array
from vitalrank.datasets.archives import unpack
from vitalrank.datasets.known import DATASETS, Dataset
from vitalrank.datasets.synthesis import synthetic
from vitalrank.errors import DataError, SettingError
from vitalrank.interactions import Interactions
from vitalrank.interactions.stats import Statistics
from vitalrank.readers import read

__all__ = ["Dataset", "catalogue", "download", "get", "load", "prepare", "source_of", "synthetic", "write_log"]


def catalogue() -> tuple[Dataset, ...]:
    """The known data sets.

    Examples
    --------
    >>> [dataset.name for dataset in catalogue()][:3]
    ['ml-100k', 'ml-1m', 'ml-20m']
    """
    return tuple(DATASETS.values())


def get(name: str, cache: str | PathLike[str] | None = None, progress: OnBytes | bool = True) -> Path:
    """Fetch a known data set, or find it in the cache.

    No owner publishes a digest that we know: a download is checked for its length and its kind, and comes by https, but
    nothing proves that the owner has not changed it since. `Interactions.fingerprint` identifies the log that was read.

    Parameters
    ----------
    name
        A name from `catalogue`.
    cache
        The folder to store it in; None for the user's cache folder.
    progress
        True shows a bar, False nothing; or a function of the bytes done and in all.

    Returns
    -------
    Path
        The raw file, as `vitalrank.read` takes it with the data set's ``options``.
    """
    dataset = _known(name)
    if dataset.url is None:
        raise DataError(f"{name} cannot be downloaded directly. {dataset.terms}, then give the file's path.")
    folder = (cache_folder() if cache is None else Path(cache)) / name
    archive = folder / dataset.url.rsplit("/", 1)[1]
    if dataset.member and (folder / Path(dataset.member).name).exists():
        return folder / Path(dataset.member).name
    if callable(progress):
        download(dataset.url, archive, dataset.sha256, progress)
    else:
        _download_with_bar(dataset.url, archive, dataset.sha256, show=progress)
    return unpack(archive, dataset.member) if dataset.member else archive


def _known(name: str) -> Dataset:
    if name not in DATASETS:
        raise SettingError(f"No data set {quoted(name)}; known are {', '.join(DATASETS)}.")
    return DATASETS[name]


def _download_with_bar(url: str, target: Path, sha256: str | None, show: bool) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), transient=True, disable=not show) as bar:
        task = bar.add_task(target.name, total=None)
        download(url, target, sha256, lambda done, total: bar.update(task, completed=done, total=total))


def load(source: str | PathLike[str], cache: str | PathLike[str] | None = None, **options: Any) -> Interactions:
    """Read a known data set by name, or any file by path.

    Parameters
    ----------
    source
        A name from `catalogue` (fetched if need be) or a path.
    cache
        The folder for downloads.
    **options
        As for `vitalrank.read`.
    """
    dataset = _named(source)
    if dataset is None:
        return read(source, **options)
    return read(get(dataset.name, cache), **(dataset.options | options))


def _named(source: str | PathLike[str]) -> Dataset | None:
    """The data set of that name, unless a file has it."""
    return None if Path(source).exists() else DATASETS.get(str(source))


def prepare(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    preset: str | None = None,
    min_user: int | None = None,
    min_item: int | None = None,
    cache: str | PathLike[str] | None = None,
    force: bool = False,
    **options: Any,
) -> Statistics:
    """Turn a raw file into a clean Parquet log: distinct pairs, sorted by user and time.

    Parameters
    ----------
    source
        A path, or a name from `catalogue`.
    target
        The Parquet file to write; it appears only when complete. One of an earlier preparation is replaced.
    preset
        A name from `catalogue` whose reading and filter apply to a file of one's own: ``"yelp"`` for the review file
        that Yelp gives out, with the 10-core of the VINS paper.
    min_user, min_item
        Least rows per user and item (`Interactions.k_core`); None takes the data set's usual preparation, which for a
        plain file is none.
    cache
        The folder for downloads.
    force
        Replace a file that vitalrank did not write; one that is read is never replaced.
    **options
        As for `vitalrank.read`.

    Returns
    -------
    Statistics
        Size and shape of what was written, and what was left out.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "raw.csv").write_text("user,item\\n1,5\\n1,5\\n1,6\\n2,5\\n")
    >>> prepare(folder / "raw.csv", folder / "log.parquet").repeats
    1
    """
    check_not_input(Path(target), [Path(source)])
    check_output(Path(target), lambda head: is_marked_parquet(Path(target)), force)
    path, given = source_of(source, preset=preset, min_user=min_user, min_item=min_item, cache=cache, **options)
    core = {"user": given.pop("min_user"), "item": given.pop("min_item")}
    log = read(path, **given)
    if any(core.values()):
        log = log.k_core(**core)
    write_log(log, target)
    return log.statistics


def source_of(
    source: str | PathLike[str],
    *,
    preset: str | None = None,
    min_user: int | None = None,
    min_item: int | None = None,
    cache: str | PathLike[str] | None = None,
    **options: Any,
) -> tuple[str | PathLike[str], dict[str, Any]]:
    """Where the files of a log lie, a known data set fetched if need be, and the options that read and filter it.

    Parameters
    ----------
    source, preset, min_user, min_item, cache, **options
        As for `prepare`.

    Returns
    -------
    tuple
        What `vitalrank.prepare_log` takes: the source, and its options with ``min_user`` and ``min_item`` among them.

    Examples
    --------
    >>> source_of("reviews.json", preset="yelp")[1]["min_user"]
    10
    """
    named = _named(source)
    dataset = named if preset is None else _known(preset)
    usual = (0, 0) if dataset is None else dataset.core
    core = [given if given is not None else least for given, least in zip((min_user, min_item), usual, strict=True)]
    path = source if named is None else get(named.name, cache)
    reading = options if dataset is None else dataset.options | options
    return path, {**reading, "min_user": core[0], "min_item": core[1]}


def write_log(log: Interactions, target: str | PathLike[str]) -> Path:
    """Write a log as Parquet with columns user, item, time and weight (those that it has), first under another name."""
    path = Path(target)
    columns = {"user": _column(log.user_ids, log.users), "item": _column(log.item_ids, log.items)}
    if log.times is not None:
        columns["time"] = pa.array(log.times)
    if log.weights is not None:
        columns["weight"] = pa.array(log.weights)
    table = pa.table(columns)
    with parquet_writer(path, table.schema, compression="zstd") as writer:
        writer.write_table(table.cast(writer.schema))
    return path


def _column(ids: Array, codes: Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(ids)).cast(pa.array(ids[:1]).type)
