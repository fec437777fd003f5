"""Model cards: a README on what a model was trained on, how, and how good it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vitalrank import __version__
from vitalrank._util.outputs import write_recorded
from vitalrank.evaluation import evaluate
from vitalrank.interactions import Interactions
from vitalrank.registry import MODELS

if TYPE_CHECKING:
    from vitalrank.models.base import Recommender

METRICS = ("ndcg", "recall", "precision", "hit_rate", "mrr", "coverage", "novelty", "gini")
_AT = (10, 20)
_SECONDS = range(10**8, 10**11)  # what can only be seconds since 1970
_DAYS = "%Y-%m-%d"


def card_of(model: Recommender, repository: str | None = None) -> str:
    """The README of a fitted model, as Markdown with the header that the Hugging Face Hub reads.

    Parameters
    ----------
    model
        A fitted model; where its ``held_out`` has a test set, it is evaluated.
    repository
        Where the model can be loaded from, such as ``"hf://shop/ranking"``.

    Examples
    --------
    >>> import vitalrank as vr
    >>> card_of(vr.MostPopular().fit(vr.Interactions.from_arrays([1, 1, 2], [7, 8, 7]))).splitlines()[0]
    '---'
    """
    history = model.history
    sampler = "" if history.sampler is None else f" trained with {history.sampler.partition('(')[0]}"
    name = type(model).__name__
    lines = [
        "---",
        "library_name: vitalrank",
        "tags: [recommender-system, implicit-feedback, learning-to-rank]",
        "---",
        "",
        f"# {name}{sampler}",
        "",
        f"Personalized ranking by `{model!r}`, made with vitalrank {__version__}.",
        "",
        *_usage(model, repository),
        *_data(model),
        *_training(model),
        *_figures(model),
        *_limits(model),
    ]
    return "\n".join(lines).rstrip() + "\n"


def write_card(model: Recommender, path: str | os.PathLike[str] | None, force: bool = False) -> str:
    """The card, also written to a file, or to ``README.md`` in a folder; one that was edited stays, without force."""
    text = card_of(model)
    if path is not None:
        place = Path(path)
        place = place / "README.md" if place.is_dir() else place
        write_recorded(place, text, force)
    return text


def _usage(model: Recommender, repository: str | None) -> Iterator[str]:
    yield from (
        "## Use",
        "",
        "```python",
        "import vitalrank as vr",
        "",
        f"model = vr.load({repository or 'path/to/this/folder'!r})",
        "ids, scores = model.recommend(model.train.user_ids[:3], n=10)",
        "```",
        "",
    )


def _data(model: Recommender) -> Iterator[str]:
    order = [*(name for name in ("valid", "test") if name in model.held_out), *model.held_out]
    parts = {"train": model.train, **{name: model.held_out[name] for name in order}}
    yield from ("## Data and split", "", "| part | rows | users | items | from | to |", "|---|---:|---:|---:|---|---|")
    for name, log in parts.items():
        users, items = np.unique(log.users).size, np.unique(log.items).size
        first, last = _span(log)
        yield f"| {name} | {len(log):,} | {users:,} | {items:,} | {first} | {last} |"
    catalogue = f"{model.train.n_users:,} users and {model.train.n_items:,} items"
    yield from ("", f"The parts share {catalogue}. Fingerprint of the training log: `{model.train.fingerprint}`.")
    if "valid" in model.held_out and model.history.best_epoch is not None:
        yield "The best epoch was picked on `valid`; `test` was not read by the training."
    elif model.held_out:
        yield "The training read no part but `train`."
    else:
        yield "Nothing is held out."
    yield ""


def _span(log: Interactions) -> tuple[str, str]:
    """First and last time, as dates where they are seconds since 1970."""
    if log.times is None or not len(log):
        return "", ""
    first, last = log.times.min().item(), log.times.max().item()
    if int(first) in _SECONDS and int(last) in _SECONDS:
        return tuple(datetime.fromtimestamp(time, UTC).strftime(_DAYS) for time in (first, last))  # type: ignore[return-value]
    return str(first), str(last)


def _training(model: Recommender) -> Iterator[str]:
    history = model.history
    yield from ("## Settings", "", "| setting | value |", "|---|---|")
    rows: dict[str, Any] = {"model": repr(model)}
    if history.sampler is not None:
        rows["sampler"] = history.sampler
    rows |= history.settings or {}
    if history:
        rows["epochs trained"] = len(history)
        rows["epoch kept"] = history.best_epoch or len(history)
        rows["seconds of training"] = f"{sum(record.get('seconds', 0.0) for record in history):.1f}"
    for name, value in rows.items():
        yield f"| {name} | {_cell(value)} |"
    yield ""


def _figures(model: Recommender) -> Iterator[str]:
    yield from ("## Figures", "")
    test = model.held_out.get("test")
    if test is None or not len(test):
        yield from ("No test set is held out, so there is nothing to measure the model on.", "")
        return
    others = [part for name, part in model.held_out.items() if name != "test"]
    found = evaluate(model, test, _AT, exclude=others, metrics=METRICS)
    baseline: Recommender = MODELS["mostpopular"].load()()
    popular = evaluate(baseline.fit(model.train), test, _AT, exclude=others, metrics=METRICS)
    yield f"On `test`, {len(found.users):,} users, the whole catalogue ranked without the items of the other parts."
    yield from ("", f"| metric | {type(model).__name__} | MostPopular |", "|---|---:|---:|")
    for name in found:
        yield f"| {name} | {found[name]:.4f} | {popular[name]:.4f} |"
    yield from ("", "Of `gini` less is better, of all others more.", "")


def _limits(model: Recommender) -> Iterator[str]:
    yield from (
        "## Limits",
        "",
        "- The folder holds the training log and the ids of its users: share it only with whom you may share these.",
        "- It ranks items of its own catalogue: new items need an update. New users can be folded in from their items,",
        "  where the model allows it.",
        "- It learned from what people were shown and chose. What nobody was shown, it cannot know to be good.",
    )


def _cell(value: object) -> str:
    return f"`{value}`".replace("|", "\\|") if value is not None else "default"
