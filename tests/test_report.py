"""The report page: everything is on it, nothing is asked from elsewhere, and a browser can use it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import browser
import vitalrank as vr
from vitalrank.comparing import Outcome, Results, compare
from vitalrank.report import charts, scales, series
from vitalrank.report.page import make_page, summary_sentence, write_report

NASTY = '<b>&"x"</b>{{body}}</script>'
VOID = {"meta", "link", "line", "circle", "rect", "polyline", "path", "br"}
in_browser = pytest.mark.skipif(browser.find() is None, reason="no Chromium here: apt-get install chromium")


class Page(HTMLParser):
    """Counts tags and checks that they close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def results():
    log = vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)
    samplers = {"uni": vr.Uniform(), "vins": vr.VINS(), NASTY: vr.Popularity()}
    models = {"mf": lambda: vr.MF(dim=8)}
    return compare(log, samplers, models, baselines=(), seeds=2, config=vr.TrainConfig(epochs=4, lr=0.01))


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return write_report(results, tmp_path_factory.mktemp("page") / "report.html", "A <title>")


def outcome(label, values, seed=0):
    metrics = {"ndcg@10": float(np.mean(values))}
    return Outcome(label, "M()", None, seed, metrics, {}, [], None, 1.0, {}, None, np.asarray(values, float))


# ---------------------------------------------------------------------------------------------------- structure


def test_every_section_is_there_and_every_tag_closes(page):
    text = page.read_text("utf-8")
    found = Page(text)
    assert found.open == []
    for heading in ("Ranking", "Learning", "What the samplers did", "Popular and rare items", "Item vectors",
                    "What to try next", "Settings and versions"):  # fmt: skip
        assert f"<h2>{heading}" in text
    assert found.tags["svg"] == found.tags["figure"] == 2 + 4 + 2 + 4
    assert "nothing to draw" not in text


def test_the_summary_comes_first(page, results):
    text = page.read_text("utf-8")
    body = text[text.index("<main>") :]
    assert body.index("lead") < body.index("<table")
    assert results.rows[0].label.split("<")[0] in body


def test_nothing_is_asked_from_elsewhere(page):
    text = page.read_text("utf-8")
    assert Page(text).links == ["data:,"]
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|https?://", text)


def test_names_cannot_break_the_page(page):
    text = page.read_text("utf-8")
    assert NASTY not in text
    assert "<b>" not in text
    assert text.count("</script>") == 1
    assert "<title>A &lt;title&gt;</title>" in text


def test_the_page_says_how_to_repeat_it(page, results):
    text = page.read_text("utf-8")
    for wanted in ("VINS(beta=", vr.__version__, results.metadata["log"]["fingerprint"], "lr 0.01"):
        assert wanted in text


def test_a_page_of_models_without_training():
    log = vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)
    found = compare(log, {}, {"popular": vr.MostPopular, "knn": vr.ItemKNN}, baselines=(), seeds=1)
    text = make_page(found)
    assert Page(text).open == []
    for absent in (
        "Item vectors",
        "Learning",
        "What the samplers did",
        "<figcaption></figcaption>",
        ">tries<",
        ">epochs<",
    ):
        assert absent not in text


def test_a_page_needs_few_facts():
    found = Results("ndcg@10", (outcome("a", [0.5, 0.1]),), {})
    assert Page(make_page(found)).open == []


# ---------------------------------------------------------------------------------------------------- summary


def test_a_clear_lead_is_told_with_its_size():
    rng = np.random.default_rng(0)
    low = rng.random(100)
    found = Results("ndcg@10", (outcome("a", low), outcome("b", low + 0.1 + 0.01 * rng.random(100))), {})
    assert re.fullmatch(
        r"b ranks best with NDCG@10 0\.\d+, \d+\.\d % above a \(p < 0\.001\)\.", summary_sentence(found)
    )


def test_a_lead_that_may_be_luck_is_told_as_such():
    found = Results("ndcg@10", (outcome("a", [0.1, 0.9, 0.3]), outcome("b", [0.9, 0.1, 0.2])), {})
    assert "may be luck (p = " in summary_sentence(found)


def test_a_single_entry_has_nobody_to_beat():
    assert summary_sentence(Results("ndcg@10", (outcome("a", [0.5, 0.5]),), {})) == "a reaches NDCG@10 0.5000."


# ---------------------------------------------------------------------------------------------------- charts


def test_a_line_lies_where_its_values_are():
    drawn = charts.line_chart([charts.Line("a", 0, [(1, 0.0), (2, 1.0), (3, 0.5)])], "t", "x", "y", zero=True)
    places = re.search(r'points="([^"]+)"', drawn)[1].split()
    across, up = zip(*(map(float, place.split(",")) for place in places), strict=True)
    assert across == (charts.LEFT, (charts.LEFT + charts.WIDTH - charts.RIGHT) / 2, charts.WIDTH - charts.RIGHT)
    assert up[0] == charts.HEIGHT - charts.BOTTOM
    assert up[0] > up[2] > up[1] > charts.TOP


def test_values_to_point_at_are_written_out():
    drawn = charts.line_chart([charts.Line("a<b", 0, [(1, 0.12345)])], "t", "epoch", "y")
    assert 'data-tip="a&lt;b, epoch 1: 0.1235"' in drawn


def test_names_at_the_end_do_not_touch():
    lines = [charts.Line(f"n{k}", k, [(1, 0.0), (2, 0.5)]) for k in range(6)]
    drawn = charts.line_chart(lines, "t", "x", "y")
    places = sorted(float(y) for y in re.findall(r'class="end[^>]* y="([\d.]+)"', drawn))
    assert min(np.diff(places)) >= 11.9
    assert places[-1] <= charts.HEIGHT - charts.BOTTOM + 4


def test_bars_are_as_long_as_their_values():
    drawn = charts.stacked_bars(
        [("a", [0.2, 0.1, 0.1]), ("b", [0.1, 0.0, 0.1])], ["head", "middle", "tail"], "t", False
    )
    widths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', drawn)]
    np.testing.assert_allclose(np.array(widths) / widths[0] * 0.2, [0.2, 0.1, 0.1, 0.1, 0.0, 0.1], atol=1e-3)


def test_norms_by_degree_are_means_of_equally_many_items():
    degree = [0] * 20 + [1] * 20 + [8] * 40
    points = series.norms_by_degree({"degree": degree, "norm": [float(max(d, 1)) for d in degree]})
    assert points == [(1.0, 1.0), (8.0, 8.0)]
    assert series.norms_by_degree({"degree": [3], "norm": [0.5]}) == [(3.0, 0.5)]
    assert series.norms_by_degree({"degree": [3]}) == series.norms_by_degree(None) == []  # kept before norms were


def test_a_logarithmic_line_lies_where_its_values_are():
    drawn = charts.line_chart([charts.Line("a", 0, [(1, 1.0), (10, 1.0), (100, 1.0)])], "t", "x", "y", log_x=True)
    across = [float(place.split(",")[0]) for place in re.search(r'points="([^"]+)"', drawn)[1].split()]
    assert across == [charts.LEFT, (charts.LEFT + charts.WIDTH - charts.RIGHT) / 2, charts.WIDTH - charts.RIGHT]


def test_charts_without_values_are_left_out():
    for drawn in (charts.line_chart([], "t", "x", "y"), charts.stacked_bars([], [], "t", True),
                  charts.scatter([], [], [], "t")):  # fmt: skip
        assert drawn == ""


def test_equal_values_have_a_scale_too():
    assert scales.scale_for([3.0, 3.0], 0, 10)(3.0) == 5.0
    assert scales.scale_for([0.0], 0, 10, log=True).ticks()
    assert scales.ticks(2.0, 2.0) == [2.0]


def test_ticks_lie_inside_and_are_few():
    for low, high in ((0.0, 1.0), (0.013, 0.0141), (-3.0, 1e6), (99.0, 101.0)):
        found = scales.ticks(low, high)
        assert 2 <= len(found) <= 7
        assert low <= found[0]
        assert found[-1] <= high


# ---------------------------------------------------------------------------------------------------- browser

LOOK = """
  const column = (n) => [...document.querySelectorAll(".sortable tbody tr")].map((row) => row.cells[n].dataset.v);
  const order = (n) => column(n).map(Number);
  const click = (n) => document.querySelectorAll(".sortable th button")[n].click();
  const found = { before: order(1) };
  click(2); found.recall = order(2); click(2); found.turned = order(2);
  click(0); found.names = column(0);
  found.sorted = document.querySelectorAll(".sortable th[aria-sort]").length;
  found.drawn = [...document.querySelectorAll("svg")].map((svg) => {
    const box = svg.getBoundingClientRect();
    return box.width > 100 && box.height > 40 && svg.querySelectorAll("polyline,rect,circle").length > 0;
  });
  const target = document.querySelector("[data-tip]");
  target.dispatchEvent(new PointerEvent("pointerover", { bubbles: true, clientX: 100, clientY: 100 }));
  const tip = document.getElementById("tip");
  found.tip = tip.textContent === target.dataset.tip && !tip.hidden;
  document.querySelector(".key button").click();
  found.hidden = getComputedStyle(document.querySelector("svg .e0")).display;
  found.wide = [document.documentElement.scrollWidth, innerWidth];
  const ranking = document.querySelector(".ranking .scroll");
  found.whole_table = ranking.scrollWidth <= ranking.clientWidth;
  return found;
"""


@in_browser
@pytest.mark.parametrize("size", [(1200, 900), (390, 844)])
def test_a_browser_draws_sorts_and_points(page, tmp_path, size):
    found, errors = browser.probe(page, LOOK, tmp_path, size)
    assert errors == []
    assert all(found["drawn"])
    assert len(found["drawn"]) == 12
    assert found["before"] == sorted(found["before"], reverse=True)
    assert found["recall"] == sorted(found["recall"], reverse=True)
    assert found["turned"] == sorted(found["turned"])
    assert sorted(found["names"]) == sorted(["uni", "vins", NASTY])
    assert found["sorted"] == 1
    assert found["tip"]
    assert found["hidden"] == "none"
    assert found["wide"][0] <= found["wide"][1]
    assert found["whole_table"] == (size[0] > 1000)  # on a phone it scrolls


@in_browser
@pytest.mark.parametrize(("name", "size", "dark"), [("phone", (390, 844), False), ("dark", (1200, 900), True)])
def test_a_screenshot_is_more_than_an_empty_page(page, tmp_path, name, size, dark):
    image = pytest.importorskip("matplotlib.image")
    target = tmp_path / f"{name}.png"
    browser.screenshot(page, target, size, dark)
    pixels = image.imread(target)[..., :3]
    assert pixels.shape[1] == size[0]
    assert pixels.std() > 0.05
    assert (np.median(pixels) < 0.5) == dark


def test_rows_without_a_value_stay_below_in_the_script(results):
    without_tries = replace(results.outcomes[0], label="still", records=[])
    assert 'data-v=""' in make_page(replace(results, outcomes=(*results.outcomes, without_tries)))
