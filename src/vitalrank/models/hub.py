"""Models on the Hugging Face Hub: a repository with a model folder and its card."""

from __future__ import annotations

import re
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from vitalrank.checkpoint import IDS, META, TENSORS
from vitalrank.errors import SettingError, StorageError
from vitalrank.models.card import card_of

if TYPE_CHECKING:
    from vitalrank.models.base import Recommender

SCHEME = "hf://"
_NAME = re.compile(r"(?P<name>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>[\w./-]+))?")
CARD = "README.md"


def push(
    model: Recommender,
    repository: str,
    *,
    private: bool = True,
    token: str | None = None,
    message: str = "Upload a vitalrank model",
) -> str:
    """Upload a model and its card to the Hugging Face Hub; it needs ``vitalrank[hub]``.

    The folder holds the training log and the ids of the users, so the repository is private unless told otherwise.

    Parameters
    ----------
    repository
        ``"owner/name"``; made if there is none.
    private
        Whether a repository that is made is private. One that exists stays as it is.
    token
        Of the Hub; None for the one that ``hf auth login`` keeps.
    message
        Of the commit.

    Returns
    -------
    str
        What :func:`vitalrank.load` takes: ``"hf://owner/name"``.
    """
    name, _ = parsed(repository, with_revision=False)
    hub = _hub()
    with tempfile.TemporaryDirectory(prefix="vitalrank-") as folder:
        model.save(folder)
        (Path(folder) / CARD).write_text(card_of(model, SCHEME + name), encoding="utf-8")
        try:
            hub.create_repo(name, private=private, exist_ok=True, token=token)
            hub.upload_folder(
                repo_id=name, folder_path=folder, commit_message=message, token=token,
                allow_patterns=[META, TENSORS, IDS, CARD],
            )  # fmt: skip
        except Exception as error:  # of the network, the Hub, the disk: its package has many kinds
            raise StorageError(f"{SCHEME}{name}: cannot be written ({_first(error)}).") from error
    return SCHEME + name


def fetch(address: str, token: str | None = None) -> Path:
    """The folder of a model on the Hub, in the Hub's own cache; only the files of a model are fetched.

    Parameters
    ----------
    address
        ``"hf://owner/name"``, or with a branch, a tag or a commit ``"hf://owner/name@v1"``.
    token
        Of the Hub; None for the one that ``hf auth login`` keeps.
    """
    name, revision = parsed(address.removeprefix(SCHEME))
    try:
        found = _hub().snapshot_download(name, revision=revision, allow_patterns=[META, TENSORS, IDS], token=token)
    except Exception as error:
        raise StorageError(f"{address}: cannot be read ({_first(error)}).") from error
    return Path(found)


def parsed(repository: str, with_revision: bool = True) -> tuple[str, str | None]:
    """The name of a repository, and its revision.

    Examples
    --------
    >>> parsed("shop/ranking"), parsed("shop/ranking@v1")
    (('shop/ranking', None), ('shop/ranking', 'v1'))
    """
    found = _NAME.fullmatch(str(repository))
    if found is None or (found["revision"] is not None and not with_revision):
        raise SettingError(f"repository is {repository!r}; give it as owner/name, such as 'shop/ranking'.")
    return found["name"], found["revision"]


def _first(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _hub() -> ModuleType:
    try:
        return import_module("huggingface_hub")
    except ImportError as missing:
        raise SettingError("the Hub needs huggingface_hub: pip install 'vitalrank[hub]'.") from missing
