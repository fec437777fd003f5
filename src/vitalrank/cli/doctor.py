"""``doctor``: runs every kernel on a toy problem and reports what works on this machine."""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata

import typer

from vitalrank.cli import options
from vitalrank.cli.output import print_json
from vitalrank.cli.ranks import over_ranks
from vitalrank.distributed.joining import is_started

_ALIKE = 0.99  # share of equal draws: scores that tie to rounding may differ
OPTIONAL = {"torch": "torch", "optuna": "tune", "matplotlib": "report", "scikit-learn": "report"}


@over_ranks
def doctor(json: options.Json = False) -> None:
    """Check this installation: versions, threads, every sampler and model on a toy log, disk."""
    found = {name: _tried(check) for name, check in _checks()}
    if json:
        print_json({name: {"ok": ok, "detail": detail} for name, (ok, detail) in found.items()})
    else:
        _print(found)
    raise typer.Exit(0 if all(ok for ok, _ in found.values()) else 1)


def _tried(check: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, check()
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"


def _print(found: Mapping[str, tuple[bool, str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=True, box=None, pad_edge=False)
    for column in ("check", "", "detail"):
        table.add_column(column)
    for name, (ok, detail) in found.items():
        table.add_row(name, "[green]ok[/]" if ok else "[red]fails[/]", escape(detail))
    Console().print(table)


def _checks() -> Iterator[tuple[str, Callable[[], str]]]:
    from vitalrank.samplers import SAMPLERS

    yield "python", lambda: f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield "packages", _packages
    yield "threads", _threads
    yield "optional", _optional
    yield "ranks", _ranks
    if is_started():  # the rest is for each machine alone
        yield "mf training", _training
        return
    yield "disk", _disk
    for name in SAMPLERS:
        yield f"sampler {name}", lambda name=name: _sampler(name)  # type: ignore[misc]
    yield "mf training", _training
    yield "save and load", _storage
    yield "gpu", _gpu


def _packages() -> str:
    names = ("vitalrank", "numpy", "scipy", "numba", "pyarrow", "safetensors")
    return ", ".join(f"{name} {metadata.version(name)}" for name in names)


def _threads() -> str:
    import numba

    return f"{numba.get_num_threads()} for the kernels"


def _optional() -> str:
    found = []
    for package, extra in OPTIONAL.items():
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {package} (pip install 'vitalrank[{extra}]')")
    return ", ".join(found)


def _ranks() -> str:
    from vitalrank.distributed.describing import describe_ranks

    return describe_ranks()


def _disk() -> str:
    place = tempfile.gettempdir()
    return f"{shutil.disk_usage(place).free / 2**30:.0f} GiB free in {place}"


def _sampler(name: str) -> str:
    import numpy as np

    import vitalrank as vr
    from vitalrank.samplers import find_sampler

    log = vr.datasets.synthetic(users=40, items=50, interactions=400, seed=0)
    table = np.random.default_rng(0).normal(size=(log.n_items, 8))
    bound = find_sampler(name)().bind(log, seed=0)
    draw = bound(
        table[: log.n_users] if log.n_users <= log.n_items else table[[0]],
        table,
        np.arange(log.n_users),
        log.items[log.indptr[:-1]],
    )
    seen = np.asarray(log.csr[np.arange(log.n_users)[:, None], np.maximum(draw.ids, 0)].todense())
    if (seen[draw.ids >= 0] > 0).any():
        raise RuntimeError("drew an item that was seen")
    return f"{draw.tries.mean():.1f} tries"


def _training() -> str:
    import vitalrank as vr

    log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    train, test = log.split_last(0.2)
    model = vr.MF(dim=8).fit(train, sampler=vr.VINS(), epochs=20, seed=0, progress=False)
    return f"ndcg@10 {vr.evaluate(model, test, at=10)['ndcg@10']:.3f} on a toy log"


def _storage() -> str:
    import vitalrank as vr

    log = vr.datasets.synthetic(users=40, items=50, interactions=400, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        vr.MostPopular().fit(log).save(f"{folder}/model")
        vr.load(f"{folder}/model")
    return "a model went to disk and came back"


def _gpu() -> str:
    """Every sampler and a training on the GPU, beside the CPU; what to do where there is none is no failure."""
    import numpy as np

    import vitalrank as vr
    from vitalrank._util.devices import resolve
    from vitalrank.samplers import SAMPLERS

    try:
        device = resolve("cuda")
    except vr.SettingError as error:
        return str(error)
    import torch

    log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    train, test = log.split_last(0.2)
    rng = np.random.default_rng(0)
    table, queries = (rng.normal(size=(rows, 8)).astype(np.float32) for rows in (train.n_items, len(train)))
    batch = (queries, table, train.users.astype(np.int64), train.items.astype(np.int64))
    for name, sampler in SAMPLERS.items():
        here = sampler().bind(train)(*batch)
        there = sampler().bind(train)(*(torch.from_numpy(array).to(device) for array in batch))
        if np.mean(there.ids.cpu().numpy() == here.ids) < _ALIKE:
            raise RuntimeError(f"sampler {name} draws other items than on the CPU")
    model = vr.MF(dim=8).fit(train, sampler=vr.VINS(), epochs=20, seed=0, device=device, progress=False)
    found = vr.evaluate(model, test, at=10, device=device)["ndcg@10"]
    return f"{torch.cuda.get_device_name(device)}: all samplers as on the CPU, ndcg@10 {found:.3f} on the toy log"
