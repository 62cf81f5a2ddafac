"""The chart: what it draws, says and saves."""

from __future__ import annotations

import csv
import io
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

NAN, INFINITY = float("nan"), float("inf")
SHOW = """async ([properties]) => {
    const { render } = await import("preact");
    const { html } = await import("taut/lib/html.js");
    const { Chart } = await import("taut/widgets/chart.js");
    const box = document.getElementById("shown") ?? document.createElement("div");
    box.id = "shown";
    document.querySelector("main").prepend(box);
    render(html`<${Chart} ...${properties} />`, box);
}"""


@pytest.fixture
def show(page: Page) -> Callable[..., None]:
    """Draws a chart of these properties, or draws it anew, at the head of a page."""
    page.goto("/nothing")
    page.get_by_role("heading", level=1).wait_for()
    return lambda **properties: page.evaluate(SHOW, [{"title": "Loss", "xLabel": "step", **properties}])


def line(label: str, y: list[float], **more: Any) -> dict[str, Any]:
    return {"label": label, "x": list(range(1, len(y) + 1)), "y": y, **more}


def values(page: Page) -> list[str]:
    return page.locator(".chart-value").all_inner_texts()


def test_the_newest_value_stands_in_the_legend_and_follows(show, page: Page) -> None:
    show(series=[line("a", [1.0, 2.0]), line("b", [0.5])])
    expect(page.locator(".chart-value")).to_have_text(["2", "0.5"])
    show(series=[line("a", [1.0, 2.0, 3.25]), line("b", [0.5])])
    expect(page.locator(".chart-value")).to_have_text(["3.25", "0.5"])


def test_the_arrow_keys_read_the_values_aloud(show, page: Page) -> None:
    show(series=[line("a", [1.0, 2.0, 3.0])])
    page.get_by_role("group", name=re.compile("Loss: 1 line over 3 points")).focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("status")).to_have_text("step 2: a 2")
    page.keyboard.press("Home")
    expect(page.get_by_role("status")).to_have_text("step 1: a 1")
    expect(page.locator(".chart-value")).to_have_text(["1"])


def test_what_is_not_finite_is_told_and_blanks_nothing(show, page: Page) -> None:
    show(series=[line("a", [1.0, NAN, 2.0, INFINITY, -INFINITY, NAN])])
    expect(page.locator(".chart-bad")).to_have_text(
        "2 values of a are NaN (step 2, 6); 1 value of a is ∞ (step 4); 1 value of a is −∞ (step 5)."
    )
    expect(page.locator(".chart-value")).to_have_text(["2"])
    page.get_by_role("button", name="Table").click()
    cells = page.locator(".chart-numbers td").all_inner_texts()
    assert cells == ["1", "not finite", "2", "not finite", "not finite", "not finite"]
    drawn = "document.querySelector('.chart canvas').getContext('2d')"
    some = f"{drawn}.getImageData(0, 0, 400, 200).data.some((byte) => byte !== 0)"
    assert page.evaluate(some)


def test_zero_and_less_are_told_on_a_logarithmic_axis(show, page: Page) -> None:
    show(series=[line("a", [1.0, 0.0, 10.0])], log=True)
    expect(page.locator(".chart-bad")).to_have_text("1 value of a is not above 0 (step 2).")


def test_a_drag_zooms_and_the_button_returns(show, page: Page) -> None:
    show(series=[line("a", [float(value) for value in range(101)])])
    box = page.locator(".u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
    page.mouse.up()
    whole = page.get_by_role("button", name="Whole")
    expect(whole).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as SVG").click()
    labels = [text for text in texts(download.value.path()) if text.isdigit()]
    assert "30" in labels
    assert "80" not in labels  # of the y axis or of the x axis, neither of which reaches so far now
    whole.click()
    expect(whole).to_have_count(0)


def texts(path: Path) -> list[str]:
    return [node.text or "" for node in ElementTree.parse(path).iter() if node.tag.endswith("text")]


def test_a_spreadsheet_computes_no_name(show, page: Page) -> None:
    names = ["=1+1", "+1", "-1", "@SUM(A1)"]
    show(title="names", series=[line(name, [-1.0]) for name in names])
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    assert [row[:3] for row in rows[1:]] == [[f"'{name}", "1", "-1"] for name in names]


def test_files_hold_what_was_given(show, page: Page) -> None:
    hostile = '</text><script>alert(1)</script>,"x"'
    show(
        title=hostile, series=[line(hostile, [1.0, NAN, 0.1 + 0.2]), line("band", [1.0], band=[[0.5], [1.5]])]
    )
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    assert rows[0] == ["series", "step", "y", "low", "high"]
    assert rows[1:] == [
        [hostile, "1", "1", "", ""],
        [hostile, "2", "NaN", "", ""],
        [hostile, "3", "0.30000000000000004", "", ""],
        ["band", "1", "1", "0.5", "1.5"],
    ]
    assert re.fullmatch(r"[\w.-]+\.csv", download.value.suggested_filename)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as SVG").click()
    assert hostile in texts(download.value.path())
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as PNG").click()
    assert Path(download.value.path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_smoothing_is_a_moving_average_without_bias(golden) -> None:
    given = [1.0, 3.0, NAN, 2.0]
    (smooth,) = golden("taut/widgets/chart_data.js", [("smooth", [given, 0.5])])
    expected = [1.0, (3 + 0.5 * 1) / 1.5, NAN, (2 + 0.5 * 3 + 0.25 * 1) / 1.75]
    assert [value for value in smooth if not math.isnan(value)] == pytest.approx(
        [expected[at] for at in (0, 1, 3)]
    )
    assert math.isnan(smooth[2])


def test_series_with_other_steps_share_an_axis(golden) -> None:
    series = [{"label": "a", "x": [1, 3], "y": [10, 30]}, {"label": "b", "x": [2, 3], "y": [20, NAN]}]
    (columns,) = golden("taut/widgets/chart_data.js", [("columns", [series])])
    assert columns["x"] == [1, 2, 3]
    assert columns["shown"] == [[10, None, 30], [None, 20, None]]
