"""The sections of the report page, each from the results to HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from vitalrank.analysis.embeddings import CLASSES
from vitalrank.comparing.outcomes import Outcome
from vitalrank.comparing.results import Results
from vitalrank.report.charts import line_chart, scatter, stacked_bars, style
from vitalrank.report.ranking import metric_name, ranking
from vitalrank.report.searched import SEARCH, searched
from vitalrank.report.series import against_seconds, imbalances, lines, norms_by_degree, points, wide

BANDS = ("head", "middle", "tail")


def curves(results: Results) -> str:
    metric = results.metric
    name = f"{metric_name(metric)} on validation"
    by_epoch = lines(results, lambda run: points(run.records, metric), mark_best=True)
    by_seconds = lines(results, lambda run: against_seconds(run.records, metric), mark_best=True)
    return _section(
        "Learning",
        _key(results),
        "grid-2",
        figure(
            "Quality against epochs",
            line_chart(by_epoch, f"{name} against epochs", "epoch", name),
            "The dot is the epoch that was kept." + _faint(results),
        ),
        figure(
            "Quality against seconds",
            line_chart(by_seconds, f"{name} against training seconds", "seconds", name),
            "The same against the time spent on training alone.",
        ),
    )


def dynamics(results: Results) -> str:
    tries = lines(results, lambda run: points(run.records, "tries"))
    vanished = lines(results, lambda run: [(x, 100 * y) for x, y in points(run.records, "vanished")])
    if len(results.rows) == 1 and not any(y for line in vanished for _, y in line.points):
        vanished = []  # a line at 0 with nothing to compare
    highest = lines(results, lambda run: imbalances(run.records, "max"), seeds=False)
    lowest = lines(results, lambda run: imbalances(run.records, "min"), seeds=False, dashed=True)
    upper = lines(results, lambda run: imbalances(run.records, "q75"), seeds=False)
    lower = lines(results, lambda run: imbalances(run.records, "q25"), seeds=False, dashed=True)
    return _section(
        f"What the sampler{'s' if len(results.rows) > 1 else ''} did",
        "",
        "grid-2",
        figure(
            "Imbalance of items",
            line_chart([*highest, *lowest], "Imbalance value of items against epochs", "epoch", "times", log_y=True),
            "Times an item was a positive for each time it was a negative, counted in each epoch: the highest item "
            "solid, the lowest dashed. 1 is balanced.",
        ),
        figure(
            "Imbalance of the middle half",
            line_chart([*upper, *lower], "Quartiles of the imbalance against epochs", "epoch", "times", log_y=True),
            "The same for the upper quartile of the items, solid, and the lower one, dashed: half of all items lie "
            "between the two.",
        ),
        figure(
            "Tries",
            line_chart(tries, "Tries per positive against epochs", "epoch", "draws per positive", log_y=wide(tries)),
            "Candidates looked at to find one negative. A search gets longer as the model gets better.",
        ),
        figure(
            "Vanished gradients",
            line_chart(vanished, "Share of vanished gradients against epochs", "epoch", "% of positives", zero=True),
            "Share of positives whose loss has a slope below 0.01: they hardly change the model any more.",
        ),
    )


def popularity(results: Results) -> str:
    firsts = [row.runs[0] for row in results.rows]
    alone = len(firsts) == 1
    hits = [("" if alone else run.label, [run.bands.get(band, 0.0) for band in BANDS]) for run in firsts if run.bands]
    shown = [
        ("" if alone else run.label, [run.inspection["exposure"][band] for band in BANDS])
        for run in firsts
        if "exposure" in run.inspection
    ]
    name = metric_name(results.metric)
    return _section(
        "Popular and rare items",
        _band_key(zip(BANDS, BANDS, strict=True)),
        "grid-2",
        figure(
            f"Where {name} comes from",
            stacked_bars(hits, BANDS, f"{name} by popularity of the items hit", percent=False),
            "What hits on head, middle and tail items add. Each band holds a third of the training interactions.",
        ),
        figure(
            "What the lists show",
            stacked_bars(shown, BANDS, "Share of the places by popularity", percent=True),
            "Share of the places that go to each band. Lists that copied the log would show a third of each.",
        ),
    )


def vectors(results: Results) -> str:
    figures = [_projection(row.runs[0]) for row in results.rows if row.runs[0].projection]
    if not figures:
        return ""
    by_degree = lines(results, lambda run: norms_by_degree(run.projection), seeds=False)
    norm_chart = figure(
        "Norm against degree",
        line_chart(by_degree, "Norm of item vectors against degree", "degree", "norm", log_x=True, zero=True),
        "Mean norm of items of like degree. Where a line rises, popular items have the longer vectors.",
    )
    names = zip(BANDS, CLASSES, strict=True)
    alone = len(results.rows) == 1
    charts = (
        f'<div class="grid-2">{figures[0]}{norm_chart}</div>'
        if alone
        else f'<div class="grid-3">{"".join(figures)}</div><div class="grid-2">{norm_chart}</div>'
    )
    return (
        "<section><h2>Item vectors</h2><p class='soft'>Items in the plane, coloured by degree. Where vectors follow "
        "frequency and not taste, colours lie apart: clustering is how much better than chance an item’s neighbours "
        "predict its class, from 0 to 1. Outliers lie on the edge.</p>"
        f"{_band_key(names)}{charts}</section>"
    )


def next_steps(results: Results) -> str:
    trained = [row for row in results.rows if row.runs[0].sampler]  # the advice is on samplers and training
    row = next((row for row in trained if row.runs[0].inspection.get("advice")), None)
    if row is None:
        return ""
    said = row.runs[0].inspection["advice"]
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in said)
    title = f"What to try next with {escape(row.label)}"
    return f'<section><h2>{title}</h2><ul class="advice">{items}</ul></section>'


def reproduction(results: Results) -> str:
    rows = [(row.label, ", ".join(filter(None, (row.runs[0].model, row.runs[0].sampler)))) for row in results.rows]
    entries = "".join(f"<tr><th>{escape(label)}</th><td><code>{escape(text)}</code></td></tr>" for label, text in rows)
    facts = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{escape(_words(value))}</td></tr>"
        for name, value in results.metadata.items()
        if name != SEARCH
    )
    return (
        '<section class="facts"><h2>Settings and versions</h2>'
        f'<div class="scroll"><table>{entries}{facts}</table></div></section>'
    )


SECTIONS: tuple[Callable[[Results], str], ...] = (
    ranking,
    searched,
    curves,
    dynamics,
    popularity,
    vectors,
    next_steps,
    reproduction,
)


def _section(title: str, key: str, kind: str, *figures: str) -> str:
    """A section of charts, empty if none of them has anything to show."""
    drawn = "".join(figures)
    return f'<section><h2>{title}</h2>{key}<div class="{kind}">{drawn}</div></section>' if drawn else ""


def figure(title: str, drawing: str, caption: str) -> str:
    """A chart with its title and what it says, empty if there is nothing to draw."""
    if not drawing:
        return ""
    return f"<figure><h3>{escape(title)}</h3>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


# ---------------------------------------------------------------------------------------------------- pieces


def _faint(results: Results) -> str:
    return " Faint: further seeds." if any(len(row.runs) > 1 for row in results.rows) else ""


def _key(results: Results) -> str:
    if len(results.rows) == 1:
        return ""
    items = "".join(
        f'<li><button type="button" aria-pressed="true" data-entry="{number}">'
        f'<i class="{style(number)}"></i>{escape(row.label)}</button></li>'
        for number, row in enumerate(results.rows)
        if row.runs[0].records
    )
    return f'<ul class="key" aria-label="Curves to show">{items}</ul>'


def _band_key(names: Iterable[tuple[str, str]]) -> str:
    items = "".join(f'<li><span><i class="box {kind}"></i>{escape(name)}</span></li>' for kind, name in names)
    return f'<ul class="key">{items}</ul>'


def _projection(run: Outcome) -> str:
    shown = run.projection or {}
    tips = [f"{item}: degree {degree}" for item, degree in zip(shown["items"], shown["degree"], strict=True)]
    drawing = scatter(shown["points"], shown["degree_class"], tips, f"Item vectors of {run.label} by {shown['method']}")
    notes = [shown["method"]]
    clustering, norms = run.inspection.get("clustering"), run.inspection.get("norm_correlation")
    if clustering is not None:
        notes.append(f"clustering {clustering['score']:.2f}")
    if norms is not None:
        notes.append(f"norm against degree: Spearman {norms:+.2f}")
    return figure(run.label, drawing, ", ".join(notes) + ".")


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_words, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
