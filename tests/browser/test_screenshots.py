"""The pictures of docs/web.md: `make screenshots` trains some runs and has these tests photograph them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made_up_site import Server
from PIL import Image
from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images" / "web"
RUNS = os.environ.get("TAUT_SCREENSHOTS")
pytestmark = pytest.mark.skipif(
    RUNS is None, reason="TAUT_SCREENSHOTS names no folder of runs: make screenshots"
)

SHOTS = {
    "start": ("/", 640),
    "clip": ("/clip?A=1&steps=4", 800),
    "workshop": ("/workshop?smooth=0.6", 1000),
    "benches": ("/benches", 960),
    "runs": ("/runs", 480),
    "run": ("/runs/epochs-4", 1000),
    "compare": ("/compare?runs=epochs-1,epochs-4,epochs-8", 900),
    "step": ("/runs/epochs-8/steps/40", 760),
    "microscope": ("/runs/epochs-8/steps/40/replies/0?scope=batch&at=6", 900),
    "glossary": ("/glossary", 860),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    assert RUNS is not None
    served = Server(Path(RUNS).resolve())
    served.start()
    yield served
    served.stop()


@pytest.mark.parametrize("name", SHOTS)
def test_a_page_is_photographed(new_page: Callable[..., Page], name: str) -> None:
    path, height = SHOTS[name]
    page = new_page(1280, height, reduced_motion="reduce")
    page.goto(path)
    if name == "workshop":  # of its runs it shows the newest alone
        boxes = page.locator("table").get_by_role("checkbox")
        boxes.first.wait_for()
        for at in range(boxes.count()):
            boxes.nth(at).check()
    keep(page, name)


def keep(page: Page, name: str) -> None:
    """Saves what is seen with 96 colours, which is about what these pages are drawn with."""
    page.get_by_role("heading", level=1).first.wait_for()
    page.wait_for_timeout(5000)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    small = picture.quantize(96, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    IMAGES.mkdir(parents=True, exist_ok=True)
    small.save(IMAGES / f"{name}.png", optimize=True)
    assert (IMAGES / f"{name}.png").stat().st_size < 150_000
