"""The list of runs, one run while it goes on, runs compared."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made_up_site import CONFIG, Server, make_run, step_record
from playwright.sync_api import Page, expect

from taut.store import RunWriter
from taut.store.database import connect_for_writing, set_meta

expect.set_options(timeout=20_000)  # a machine that is busy with other things is no fault


def made(server: Server, name: str, steps: int = 4, **facts: object) -> Path:
    """A finished run; its name begins with what the test that made it searches for."""
    with RunWriter.create(server.root / name, CONFIG.format(seed=7), {"threads": 1, **facts}) as writer:
        for step in range(1, steps + 1):
            writer.append(step_record(step))
    return server.root / name


def set_run(directory: Path, **meta: object) -> None:
    db = connect_for_writing(directory / "run.db")
    set_meta(db, **meta)
    db.close()


def row(page: Page, name: str):
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


@pytest.fixture
def writer(server: Server, request: pytest.FixtureRequest) -> Iterator[RunWriter]:
    name = f"live-{request.node.name}"
    with RunWriter.create(server.root / name, CONFIG.format(seed=0), {"threads": 1}) as opened:
        yield opened


def test_the_list_is_searched_sorted_and_filtered_and_the_address_keeps_it(
    page: Page, server: Server
) -> None:
    for name, steps in (("list alpha", 2), ("list beta", 9), ("list gamma", 5)):
        made(server, name, steps)
    set_run(server.root / "list gamma", status="failed")
    page.goto("/runs")
    page.keyboard.press("/")
    page.keyboard.type("LIST a")
    expect(row(page, "list alpha")).to_be_visible()
    page.get_by_role("searchbox", name="Search runs").fill("list")
    expect(page.get_by_role("row")).to_have_count(4)
    page.get_by_role("button", name="Steps").click()
    names = page.locator("tbody .run-name")
    expect(names).to_have_text(["list beta", "list gamma", "list alpha"])
    page.get_by_role("button", name="Steps").click()
    expect(names).to_have_text(["list alpha", "list gamma", "list beta"])
    page.get_by_label("Status").select_option("failed")
    expect(names).to_have_text(["list gamma"])
    expect(page).to_have_url(re.compile("search=list.*status=failed"))
    page.reload()
    expect(names).to_have_text(["list gamma"])
    expect(page.get_by_label("Status")).to_have_value("failed")


def test_a_run_started_elsewhere_shows_up_grows_and_ends(page: Page, server: Server) -> None:
    page.goto("/runs?search=elsewhere")
    expect(page.get_by_text("No run is like that.")).to_be_visible()
    with RunWriter.create(server.root / "elsewhere", CONFIG.format(seed=0), {}) as writer:
        expect(row(page, "elsewhere")).to_contain_text("running")
        for step in (1, 2, 3):
            writer.append(step_record(step))
        expect(row(page, "elsewhere").get_by_role("cell").nth(3)).to_have_text("3")
    expect(row(page, "elsewhere")).to_contain_text("finished")
    shutil.rmtree(server.root / "elsewhere")
    expect(row(page, "elsewhere")).to_have_count(0)


def test_a_killed_run_turns_dead_without_a_reload(page: Page, server: Server) -> None:
    run = made(server, "killed")
    set_run(run, status="running", heartbeat=time.time() - 52)
    page.goto("/runs?search=killed")
    expect(row(page, "killed")).to_contain_text("running")
    expect(row(page, "killed")).to_contain_text("dead", timeout=20_000)


def test_forks_stand_beneath_their_run(page: Page, server: Server) -> None:
    made(server, "tree root")
    made(server, "tree leaf", parent="tree root", parent_step=3)
    made(server, "tree leaf of leaf", parent="tree leaf", parent_step=4)
    page.goto("/runs?search=tree")
    names = page.locator("tbody .run-name")
    expect(names).to_have_text(
        [re.compile("tree root"), re.compile("tree leaf"), re.compile("tree leaf of leaf")]
    )
    depths = [names.nth(at).evaluate("e => e.style.getPropertyValue('--depth')") for at in range(3)]
    assert depths == ["0", "1", "2"]
    names.nth(1).get_by_role("link").click()
    expect(page.get_by_text("forked from tree root, step 3")).to_be_visible()


def test_the_page_of_a_run_grows_while_it_trains(page: Page, server: Server, writer: RunWriter) -> None:
    page.goto(f"/runs/{writer.directory.name}")
    expect(page.get_by_text("before its first step")).to_be_visible()
    writer.append(step_record(1))
    expect(page.get_by_text("step 1", exact=True)).to_be_visible()
    chart = page.get_by_role("group", name=re.compile("^Reward: 1 line over 1 points"))
    expect(chart).to_be_visible()
    for step in range(2, 6):
        writer.append(step_record(step))
    expect(page.get_by_role("group", name=re.compile("^Reward: 1 line over 5 points"))).to_be_visible()
    writer.event("check", "truncation", "half of the replies were cut", "warning", 5)
    badge = page.get_by_role("button", name="truncation warns")
    badge.click()
    expect(page.get_by_text("half of the replies were cut").first).to_be_visible()
    expect(page.get_by_text("Replies end by themselves.", exact=False)).to_be_visible()
    expect(page.get_by_role("region", name="Events").get_by_role("row")).to_have_count(2)
    writer.finish("interrupted")
    expect(page.get_by_role("main").get_by_text("stopped").first).to_be_visible()


def test_steps_that_a_resume_takes_again_replace_the_old_ones(page: Page, writer: RunWriter) -> None:
    for step in range(1, 7):
        writer.append(step_record(step))
    page.goto(f"/runs/{writer.directory.name}?metric=reward")
    expect(page.get_by_text("step 6", exact=True)).to_be_visible()
    writer.supersede_after(2)
    writer.append(step_record(3, **{"reward/mean": 0.875}))
    expect(page.get_by_text("step 3", exact=True)).to_be_visible()
    expect(page.get_by_role("group", name=re.compile("^reward.mean: 1 line over 3 points"))).to_be_visible()
    expect(page.locator(".chart-value").first).to_have_text("0.875")


def test_a_server_that_is_started_anew_in_the_middle_loses_and_doubles_nothing(
    page: Page, server: Server, writer: RunWriter, problems: list[str]
) -> None:
    for step in (1, 2):
        writer.append(step_record(step))
    page.goto(f"/runs/{writer.directory.name}?metric=reward")
    expect(page.get_by_text("step 2", exact=True)).to_be_visible()
    server.stop()
    expect(page.get_by_text("The server doesn't answer", exact=False).first).to_be_visible()
    for step in (3, 4):
        writer.append(step_record(step))
    server.start()
    expect(page.get_by_text("step 4", exact=True)).to_be_visible()
    writer.append(step_record(5))
    expect(page.get_by_role("group", name=re.compile("^reward.mean: 1 line over 5 points"))).to_be_visible()
    expect(page.get_by_text("The server doesn't answer", exact=False)).to_have_count(0)
    # The browser logs that it lost the connection, and that it could not connect.
    problems[:] = [text for text in problems if "ERR_" not in text]


def test_numbers_that_are_not_finite_blank_no_chart(page: Page, server: Server) -> None:
    make_run(server.root / "unfinite", bad=True)
    page.goto("/runs/unfinite?metric=loss")
    chart = page.get_by_role("figure").filter(has_text="loss/policy")
    expect(chart.get_by_role("group", name=re.compile("over 12 points"))).to_be_visible()
    expect(chart).to_contain_text("NaN")
    drawn = chart.locator("canvas").evaluate(
        """canvas => {
            const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            let drawn = 0;
            for (let at = 3; at < pixels.length; at += 4) drawn += pixels[at] > 0;
            return drawn;
        }"""
    )
    assert drawn > 500


def test_runs_are_chosen_compared_and_left_out(page: Page, server: Server) -> None:
    make_run(server.root / "side one", steps=3, seed=1)
    make_run(server.root / "side two", steps=6, seed=2)
    page.goto("/runs?search=side")
    page.get_by_role("checkbox", name="Compare side one").check()
    page.get_by_role("checkbox", name="Compare side two").check()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_role("group", name=re.compile("^Reward: 2 lines over 6 points"))).to_be_visible()
    settings = page.get_by_role("region", name="Settings that differ").get_by_role("row")
    expect(settings).to_have_count(2)
    expect(settings.nth(1)).to_contain_text("run.seed")
    page.get_by_label("Add a run").fill("first")
    expect(page.get_by_role("group", name=re.compile("^Reward: 3 lines"))).to_be_visible()
    page.get_by_role("button", name="Leave side one out").click()
    expect(page.get_by_role("group", name=re.compile("^Reward: 2 lines"))).to_be_visible()
    expect(page).not_to_have_url(re.compile("one"))  # a moment after it is drawn
    page.reload()
    expect(page.locator(".compared li")).to_have_text([re.compile("side two"), re.compile("first")])


def test_settings_are_searched_and_what_is_not_the_default_is_marked(page: Page) -> None:
    page.goto("/runs/first")
    settings = page.get_by_role("region", name="Settings", exact=True).first
    expect(settings.get_by_role("row").filter(has_text="algorithm.epochs")).to_contain_text("not the default")
    expect(settings.get_by_role("row").filter(has_text="clip_low")).to_have_count(0)
    page.get_by_text("that aren't the default").click()
    expect(settings.get_by_role("row").filter(has_text="clip_low")).to_have_count(1)
    page.get_by_text("that aren't the default").click()
    page.get_by_label("Search settings").fill("clip_low")  # looks through all
    expect(settings.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("setting=clip_low"))


def test_a_chart_is_smoothed_and_tells_what_it_shows(page: Page) -> None:
    page.goto("/runs/first")
    chart = page.get_by_role("figure").filter(
        has=page.get_by_role("heading", name="Clipped share", exact=True)
    )
    chart.get_by_text("What these are").click()
    expect(chart).to_contain_text("share that is binding (share; over token sightings)")
    page.get_by_role("slider", name="Smoothing").fill("0.5")
    expect(page).to_have_url(re.compile(r"smoothing=0\.5"))
    page.get_by_role("button", name=re.compile("Time and machine")).click()
    expect(page.get_by_role("heading", name=re.compile("Seconds a step"))).to_be_visible()


def test_the_seconds_of_a_step_are_split(page: Page) -> None:
    page.goto("/runs/first")
    time_split = page.get_by_role("region", name="Time", exact=True)
    expect(time_split).to_contain_text("sampling0.2 s 33 %")
    expect(time_split).to_contain_text("update0.4 s 67 %")


def test_five_hundred_runs_are_listed_and_searched(page: Page, server: Server, tmp_path: Path) -> None:
    model = make_run(tmp_path / "model", steps=3)
    for number in range(500):
        shutil.copytree(model, server.root / f"crowd {number:03}")
    try:
        page.goto("/runs?search=crowd")
        expect(page.locator("tbody tr")).to_have_count(500, timeout=90_000)
        page.get_by_role("searchbox", name="Search runs").fill("crowd 49")
        expect(page.locator("tbody tr")).to_have_count(15)
    finally:
        for number in range(500):
            shutil.rmtree(server.root / f"crowd {number:03}")


def test_no_page_of_runs_is_wider_than_a_phone(new_page: Callable[..., Page]) -> None:
    page = new_page(width=400)
    for path in ("/runs", "/runs/first", "/compare?runs=first%2Csecond"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path


def test_a_live_run_does_not_stop_the_page_from_being_read(page: Page, writer: RunWriter) -> None:
    """Twenty steps a second redraw no faster than a person can look, and the last one is shown."""
    page.goto(f"/runs/{writer.directory.name}")
    expect(page.get_by_text("before its first step")).to_be_visible()
    done = threading.Event()

    def write() -> None:
        for step in range(1, 61):
            writer.append(step_record(step))
            time.sleep(0.05)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    expect(page.get_by_text("step 60", exact=True)).to_be_visible()
    thread.join()
    assert done.is_set()
    expect(page.get_by_role("group", name=re.compile("^Reward: 1 line over 60 points"))).to_be_visible()
