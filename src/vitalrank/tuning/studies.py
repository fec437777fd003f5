"""The Optuna study behind a search: where it is stored, and what it searches."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vitalrank._util.display import first_line, printable
from vitalrank.config import saved_setting
from vitalrank.errors import SettingError, StorageError
from vitalrank.tuning.spaces import Choice, Dimension

try:
    import optuna
    from optuna.storages.journal import JournalFileBackend
except ModuleNotFoundError as missing:
    raise SettingError("tuning needs optuna: pip install 'vitalrank[tune]'.") from missing

FACTS = "vitalrank.plan"  # the study's note of what it searches
LOST = (OSError, optuna.exceptions.StorageInternalError)  # what a storage that fails raises

_DEFAULTS = {"method": "tpe"}  # of facts that studies of version 0.1 do not have
_ATTEMPTS = 8  # to create tables that another process creates too
_TABLES = {"studies", "trials", "version_info", "alembic_version"}  # some of Optuna's
_LONGEST_LINE = 1 << 20  # bytes of a journal's first line
_BUSY_SECONDS = 60.0  # to wait for another process's write to SQLite

# By the epochs of a trial: what learns slowly, as with a low learning rate, is not behind in the first fifth.
PRUNERS: Mapping[str, Callable[[int], optuna.pruners.BasePruner]] = {
    "median": lambda epochs: optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=max(5, epochs // 5)),
    "halving": lambda epochs: optuna.pruners.SuccessiveHalvingPruner(min_resource=max(5, epochs // 5)),
    "none": lambda epochs: optuna.pruners.NopPruner(),
}


def distribution_of(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    """The dimension as an Optuna distribution."""
    if isinstance(dimension, Choice):
        return optuna.distributions.CategoricalDistribution(dimension.values)
    low, high = dimension.low, dimension.high
    if isinstance(low, int) and isinstance(high, int):
        return optuna.distributions.IntDistribution(low, high, log=dimension.log)
    return optuna.distributions.FloatDistribution(low, high, log=dimension.log)


def open_study(
    storage: str | os.PathLike[str] | None, name: str, pruner: str, epochs: int, facts: Mapping[str, Any]
) -> optuna.Study:
    """The study of that name, new or to be resumed; one of another search is refused."""
    if pruner not in PRUNERS:
        raise SettingError(f"unknown pruner {pruner!r}; choose one of {', '.join(PRUNERS)}.")
    try:
        study = optuna.create_study(
            storage=storage_of(storage), study_name=name, pruner=PRUNERS[pruner](epochs), direction="maximize",
            load_if_exists=True,
        )  # fmt: skip
        _check_facts(study, facts, storage)
    except StorageError:  # which says what to do
        raise
    except (*LOST, json.JSONDecodeError) as error:  # a damaged journal
        raise StorageError(f"{storage}: cannot hold a study ({first_line(error)}); choose another place.") from error
    return study


def recorded_space(storage: str | os.PathLike[str] | None, name: str) -> dict[str, str]:
    """What the study of that name searches, as text; empty if there is none."""
    file = file_of(storage)
    if storage is None or (file is not None and not file.is_file()):
        return {}
    try:
        study = optuna.load_study(storage=storage_of(storage), study_name=name)
        found = study.user_attrs.get(FACTS, {}).get("space", {})
    except (KeyError, json.JSONDecodeError, *LOST):  # KeyError: no study of that name
        return {}
    return found if isinstance(found, dict) else {}


def file_of(storage: str | os.PathLike[str] | None) -> Path | None:
    """The file of a storage; None for memory and for databases that are not a file.

    Examples
    --------
    >>> file_of("runs/study.db") == file_of("sqlite:///runs/study.db"), file_of("postgresql://host/studies")
    (True, None)
    """
    text = "" if storage is None else os.fspath(storage)
    if "://" not in text:
        return Path(text).resolve() if text else None
    if not text.startswith("sqlite"):
        return None
    from sqlalchemy import make_url

    path = make_url(text).database or ":memory:"
    return None if path.startswith((":memory:", "file:")) else Path(path).resolve()


def storage_of(storage: str | os.PathLike[str] | None) -> optuna.storages.BaseStorage:
    """Optuna's storage for a file, an address, or None for memory."""
    if storage is None:
        return optuna.storages.InMemoryStorage()
    text = _with_driver(os.fspath(storage))
    if "://" in text:
        return _created(text, lambda: optuna.storages.get_storage(text))
    path = Path(text).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".journal":  # for network disks, where SQLite's locks do not hold
        _refuse_foreign(path, is_journal(path))
        return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    _refuse_foreign(path, is_database(path))
    return _created(text, lambda: _sqlite(path))


def _refuse_foreign(path: Path, is_ours: bool) -> None:
    if path.is_file() and path.stat().st_size and not is_ours:
        raise StorageError(f"{printable(path)}: exists and holds no studies; choose another place.")


def is_journal(path: Path) -> bool:
    """Whether a file begins as Optuna's journals do; others are appended to by none."""
    with suppress(OSError, ValueError, RecursionError), path.open("rb") as file:
        first = json.loads(file.readline(_LONGEST_LINE))
        return isinstance(first, dict) and "op_code" in first
    return False


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database with the tables of Optuna, or with none yet."""
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.OperationalError:  # it cannot be opened or is locked, which Optuna will tell
        return True
    except sqlite3.DatabaseError:
        return False
    return not tables or bool(tables & _TABLES)


def _with_driver(address: str) -> str:
    """The address of a PostgreSQL server with the driver that is installed, where it names none."""
    scheme, separator, rest = address.partition("://")
    if scheme not in ("postgresql", "postgres"):
        return address
    driver = next((name for name in ("psycopg", "psycopg2", "pg8000") if find_spec(name)), None)
    if driver is None:
        raise SettingError(f"{scheme}:// needs a driver of PostgreSQL: pip install 'vitalrank[postgres]'.")
    return f"postgresql+{driver}{separator}{rest}"


def _sqlite(path: Path) -> optuna.storages.BaseStorage:
    """The storage in an SQLite file; not by address, in which ?, % and others of a file's name have a meaning."""
    from sqlalchemy.pool import NullPool

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)

    return optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": connect, "poolclass": NullPool})


def _created(name: str, create: Callable[[], optuna.storages.BaseStorage]) -> optuna.storages.BaseStorage:
    """The storage; where another process creates its tables at the same moment, a little later."""
    for attempt in range(_ATTEMPTS):
        try:
            return create()
        except Exception as error:  # of SQLAlchemy or of a driver that is not installed
            if attempt + 1 == _ATTEMPTS or not _is_race(error):
                raise StorageError(
                    f"{name}: cannot be opened as a storage ({first_line(error)}); see Optuna's docs."
                ) from error
        time.sleep(random.uniform(0.05, 0.25) * (attempt + 1))
    raise AssertionError("unreachable")


def _is_race(error: Exception) -> bool:
    """Whether two processes created the same tables or rows."""
    text = str(error).lower()
    return any(part in text for part in ("already exists", "unique constraint", "duplicate", "no such table", "locked"))


def _check_facts(study: optuna.Study, facts: Mapping[str, Any], storage: object) -> None:
    """Note what is searched in a new study; make sure that an old one searches the same."""
    if FACTS not in study.user_attrs:
        study.set_user_attr(FACTS, dict(facts))
    found = study.user_attrs[FACTS]  # read back: another process may have written at the same moment
    for name, value in facts.items():
        there = saved_setting({**_DEFAULTS, **found}, name)
        if there != value:
            raise SettingError(
                f"{storage}: study {study.study_name!r} has {name} {there}, not {value}; ask for the same "
                "to resume it, or name another study or place."
            )


@contextmanager
def written(done: Callable[[], str] = str) -> Iterator[None]:
    """Say of a storage that fails what to do about it; ``done`` says how far the search has come."""
    try:
        yield
    except (StorageError, BrokenPipeError):  # reported already, or of the callback
        raise
    except LOST as error:
        raise StorageError(
            f"the study cannot be written ({first_line(error)}){done()}; mend its storage, such as a full disk, "
            "and the same again goes on."
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna's own messages down to warnings."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
