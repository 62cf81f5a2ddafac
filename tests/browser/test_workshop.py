"""The workshop: a run from the page while it trains, across a restart of the server; stops, faults, the heat map."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_site import Server
from playwright.sync_api import Page, expect
from test_everywhere import AXE, RULES, told

from taut.checks.gauge import describe_clipped_share
from taut.config import resolve, to_yaml
from taut.store import Run, RunWriter, StepRecord

expect.set_options(timeout=20_000)  # a machine that is busy with other things is no fault

TRAINING = 600_000
"""Milliseconds for what waits for torch and for the fine-tuned model, on a machine that has other things to do."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, world_cache: Path) -> Iterator[Server]:
    """Over a folder that is empty but for what `stored` makes; its runs find the tests' fine-tuned models."""
    root = tmp_path_factory.mktemp("workshop") / "runs"
    root.mkdir()
    served = Server(root)
    served.start()
    yield served
    served.stop()


def store(
    root: Path, name: str, settings: dict[str, object], share: float, reward: float, steps: int = 6
) -> None:
    """A finished run of the world with made-up numbers; the share climbs through the epochs from 0."""
    config, _ = resolve(settings)
    epochs = config.algorithm.epochs
    with RunWriter.create(root / name, to_yaml(config), {}) as writer:
        for step in range(1, steps + 1):
            numbers = {
                "reward/mean": reward,
                "eval/accuracy": reward - 0.2,
                "clip/binding": share,
                "entropy": 0.5,
            }
            numbers |= {f"clip/epoch_{k + 1}": 2 * share * k / max(1, epochs - 1) for k in range(epochs)}
            numbers |= {"clip/outside": 2 * share}
            numbers |= {f"clip/outside_epoch_{k + 1}": numbers[f"clip/epoch_{k + 1}"] for k in range(epochs)}
            writer.append(StepRecord(step, {}, numbers))


@pytest.fixture(scope="module")
def stored(server: Server) -> Path:
    """Two seeds of the world's own setting, and 8 epochs."""
    store(server.root, "four-0", {"run.seed": 0}, 0.06, 0.8)
    store(server.root, "four-1", {"run.seed": 1}, 0.08, 0.9)
    store(server.root, "eight", {"algorithm.epochs": 8}, 0.15, 0.6)
    return server.root


def row(page: Page, words: str):
    return page.get_by_role("row").filter(has=page.get_by_role("checkbox", name=f"Show {words}", exact=True))


def test_seeds_are_one_line_beside_the_published_figures_with_the_gauge_in_words(
    page: Page, stored: Path
) -> None:
    page.goto("/workshop?show=world|epochs=8")
    four = row(page, "4 epochs, ε 0.2")
    expect(four).to_contain_text("7.0 % ± 1.4 %")  # of 6 and 8 per cent
    expect(four).to_contain_text("published 7.1 %")
    expect(four).to_contain_text("0.85 ± 0.07")
    expect(four).to_contain_text("published 0.89")
    expect(four).to_contain_text("65 % ± 7 %")
    expect(four).to_contain_text("published 70 %")
    expect(four).to_contain_text(describe_clipped_share(0.08))
    expect(row(page, "8 epochs, ε 0.2")).to_contain_text(describe_clipped_share(0.15))
    share = page.get_by_role("figure").filter(has=page.get_by_role("heading", name="Clipped share"))
    expect(share.get_by_text("8 epochs, ε 0.2")).to_be_visible()
    page.get_by_label("by epoch").check()
    share.get_by_role("button", name="Table").click()
    # Of 4 epochs the mean of both seeds in epoch 4, and of 8 epochs the eighth.
    expect(share.get_by_role("row").filter(has_text=re.compile("^4"))).to_contain_text("14.0 %")
    expect(share.get_by_role("row").filter(has_text=re.compile("^8"))).to_contain_text("30.0 %")
    expect(page).to_have_url(re.compile("by=epochs"))


@pytest.fixture
def others(stored: Path) -> Iterator[None]:
    """Runs that agree with the world's own in all that the page lets choose, or in all but a preset's settings."""
    made = {
        "cool": {"sampling.temperature": 0.7},
        "capped": {"algorithm.surrogate": "cispo"},
        "few": {"algorithm.replies_per_prompt": 4, "eval.samples": 2, "optimizer.weight_decay": 0.1},
        "ppo": {"algorithm.preset": "ppo"},
        "grpo": {"algorithm.preset": "grpo"},
    }
    for name, settings in made.items():
        store(stored, name, settings, 0.5, 0.1)
    yield
    for name in made:
        shutil.rmtree(stored / name)


def test_runs_that_differ_in_a_setting_beyond_the_pages_are_lines_of_their_own(
    page: Page, others: None
) -> None:
    page.goto("/workshop?show=world,sampling.temperature=0.7&he=4&hc=0.2&hf=clip/binding")
    four = row(page, "4 epochs, ε 0.2")
    expect(four).to_contain_text("7.0 % ± 1.4 %")
    expect(four.get_by_role("link")).to_have_text(["0", "1"])
    expect(page.get_by_role("button", name="4 epochs, ε 0.2: clipped share")).to_contain_text("7.0 %")
    for words in (
        "4 epochs, ε 0.2, temperature 0.7",
        "4 epochs, ε 0.2, surrogate cispo",
        "4 epochs, ε 0.2, replies per prompt 4, weight decay 0.1, + 1 other setting",
        "4 epochs, ε 0.2, critic and GAE, KL in the reward 0.05, preset ppo, whiten advantages true",
        "4 epochs, ε 0.2, group, KL in the loss 0.04, preset grpo, loss normalization sequence",
    ):
        expect(row(page, words)).to_contain_text("50.0 %")
        expect(row(page, words)).not_to_contain_text("published")


def test_a_chip_of_published_figures_is_lit_for_that_experiment_alone(page: Page, stored: Path) -> None:
    page.goto("/workshop?epochs=8&rate=0.003&steps=20&kl=loss&minibatches=2&advantage=gae")
    chips = page.get_by_role("group", name="Settings with published figures")
    expect(chips.get_by_role("radio", checked=True)).to_have_count(0)
    chips.get_by_label("4, ε 0.5").check()
    expect(
        page.get_by_text("taut train --algorithm.clip_low 0.5 --algorithm.clip_high 0.5", exact=True)
    ).to_be_visible()
    expect(chips.get_by_label("4, ε 0.5")).to_be_checked()


def test_the_two_charts_stand_at_one_height_and_the_command_is_whole(page: Page, stored: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/workshop?show=world&epochs=8&rate=0.003&steps=20&kl=loss&minibatches=2&advantage=gae")
    canvases = page.locator(".workshop-charts .chart-canvas")
    expect(canvases).to_have_count(2)
    places = "(all) => all.map((each) => each.getBoundingClientRect()).map(({ x, y }) => [x, y])"
    (left, top), (right, other_top) = canvases.evaluate_all(places)  # in one reading, as curves still come in
    assert left < right
    assert top == pytest.approx(other_top, abs=0.5)
    command = page.get_by_role("region", name="The same in a terminal")
    assert command.evaluate("(box) => box.scrollWidth - box.clientWidth") == 0


def test_what_is_shown_is_in_the_address(page: Page, stored: Path) -> None:
    page.goto("/workshop?show=world")
    page.get_by_role("checkbox", name="Show 8 epochs, ε 0.2").check()
    expect(page).to_have_url(re.compile(r"show=world%7Cepochs%3D8"))
    page.get_by_role("slider", name="Epochs per batch").fill("2")
    page.get_by_role("slider", name="ε").fill("0.3")
    expect(
        page.get_by_text("taut train --algorithm.epochs 2 --algorithm.clip_low 0.3 --algorithm.clip_high 0.3")
    ).to_be_visible()
    expect(page).to_have_url(re.compile(r"epochs=2.*low=0\.3"))
    page.reload()
    expect(page.get_by_role("checkbox", name="Show 8 epochs, ε 0.2")).to_be_checked()
    expect(page.get_by_role("spinbutton", name="Epochs per batch, as a number")).to_have_value("2")


def test_the_heat_map_counts_runs_that_there_are_and_opens_them(page: Page, stored: Path) -> None:
    page.goto("/workshop?he=4,8&hc=0.2&hf=clip/binding&seeds=2")
    cell = page.get_by_role("button", name="4 epochs, ε 0.2: clipped share")
    expect(cell).to_contain_text("7.0 %")
    expect(cell).to_contain_text("± 1.4 %")
    expect(page.get_by_role("button", name="Run the 1 that is missing")).to_be_visible()  # 8 epochs, seed 1
    page.get_by_role("button", name="8 epochs, ε 0.2: clipped share").click()
    expect(page).to_have_url(re.compile("/runs/eight"))


@pytest.mark.learning
def test_a_run_from_the_page_trains_on_while_the_server_is_started_anew(
    page: Page, server: Server, problems: list[str]
) -> None:
    page.goto("/workshop?epochs=2&steps=60")
    page.get_by_role("button", name="Run", exact=True).click()
    under_way = page.get_by_role("region", name="Under way")
    expect(under_way).to_contain_text("epochs=2_steps=60_seed=0")
    expect(under_way).to_contain_text(re.compile(r"step [1-9]\d* of 60"), timeout=TRAINING)
    expect(row(page, "2 epochs, ε 0.2, 60 steps")).to_contain_text("running")
    server.stop()
    before = Run.open(server.root / "epochs=2_steps=60_seed=0").step_count
    server.start()
    expect(row(page, "2 epochs, ε 0.2, 60 steps")).to_contain_text("finished", timeout=TRAINING)
    assert before < 60
    expect(page.get_by_role("region", name="Under way")).to_have_count(0)
    chart = page.get_by_role("figure").filter(has=page.get_by_role("heading", name="Reward in training, and"))
    chart.get_by_role("button", name="Table").click()
    expect(chart.get_by_role("table").get_by_role("row")).to_have_count(62)  # the head, step 0, and 60 steps
    run = Run.open(server.root / "epochs=2_steps=60_seed=0")
    expect(chart.get_by_role("row").last).to_contain_text(f"{run.last('reward/mean'):.3f}")
    problems.clear()  # while there was no server, requests failed


@pytest.mark.learning
def test_a_run_is_stopped_as_by_ctrl_c(page: Page, server: Server) -> None:
    page.goto("/workshop?epochs=1&steps=100")
    page.get_by_role("button", name="Run", exact=True).click()
    under_way = page.get_by_role("region", name="Under way")
    expect(under_way).to_contain_text(re.compile(r"step \d+ of 100"), timeout=TRAINING)
    under_way.get_by_role("button", name="Stop").click()
    expect(row(page, "1 epoch, ε 0.2, 100 steps")).to_contain_text("stopped", timeout=TRAINING)
    run = Run.open(server.root / "epochs=1_steps=100_seed=0")
    assert run.status == "interrupted"
    assert run.step_count < 100


@pytest.mark.learning
def test_a_switch_makes_its_check_fire_by_name_beside_a_healthy_run(page: Page, server: Server) -> None:
    page.goto("/workshop?steps=2&fault=dropout+on")
    section = page.get_by_role("region", name="Break it on purpose")
    section.get_by_role("button", name="Run it broken, and healthy beside it").click()
    expect(section).to_contain_text(re.compile("rescoring fired at step 1"), timeout=TRAINING)
    expect(section).to_contain_text("rescored in other micro-batches, old logprobs differ by")
    expect(row(page, "broken: dropout on, 4 epochs, ε 0.2, 2 steps")).to_contain_text(
        "finished", timeout=TRAINING
    )
    healthy = row(page, "4 epochs, ε 0.2, 2 steps")
    expect(healthy).to_contain_text("finished", timeout=TRAINING)
    expect(healthy).not_to_contain_text("rescoring")
    assert Run.open(server.root / "broken-dropout-on_steps=2_seed=0").facts["fault"] == "dropout on"


@pytest.mark.learning
def test_the_heat_map_fills_in_as_runs_end(page: Page, server: Server) -> None:
    page.goto("/workshop?steps=2&he=1,2&hc=0.1,0.3")
    page.get_by_role("button", name="Run the 4 that are missing").click()
    heat = page.get_by_role("table", name="held-out accuracy by epochs and ε")
    expect(heat).to_contain_text("queued")  # more than run at a time, or the first still makes ready
    expect(heat.get_by_role("button", name=re.compile("held-out accuracy"))).to_have_count(
        4, timeout=TRAINING
    )
    expect(page.get_by_role("button", name="Nothing is missing")).to_be_disabled()


@pytest.fixture(scope="module")
def broken_pair(server: Server, stored: Path) -> None:
    """A run with a fault, whose checks fired, and the healthy one of its settings: 8 epochs."""
    config, _ = resolve({"algorithm.epochs": 8})
    with RunWriter.create(server.root / "leaky", to_yaml(config), {"fault": "no clip"}) as writer:
        for step in range(1, 4):
            writer.append(StepRecord(step, {}, {"reward/mean": 0.1, "kl/old_k3": 0.5, "clip/binding": 0.0}))
        for check in ("pads", "clip"):
            writer.event("check", check, f"{check} is amiss", level="error", step=1)


def test_a_broken_run_and_its_healthy_twin_stand_side_by_side(page: Page, broken_pair: None) -> None:
    page.goto("/workshop")
    section = page.get_by_role("region", name="Break it on purpose")
    expect(section).to_contain_text("clip fired at step 1 of leaky: clip is amiss.")
    section.get_by_text("What clip checks").click()
    expect(section).to_contain_text("a token has no gradient")
    reward = section.get_by_role("figure").filter(has=page.get_by_role("heading", name="Reward in training"))
    expect(reward).to_contain_text("broken0.1")
    expect(reward).to_contain_text("healthy0.6")
    expect(section.get_by_role("heading", name="How far a batch carries the policy")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_where_there_are_runs(new_page, broken_pair: None, theme: str) -> None:
    page = new_page(theme=theme, reduced_motion="reduce")
    page.goto("/workshop?show=world|epochs=8&split=1&kl=loss")
    expect(row(page, "8 epochs, ε 0.2")).to_be_visible()
    page.wait_for_timeout(1000)
    page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
    found = page.evaluate("(rules) => axe.run(document, rules)", RULES)
    assert [told(entry) for entry in found["violations"] if entry["impact"] in ("serious", "critical")] == []
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_process_that_died_before_its_run_is_told_with_its_last_words(page: Page, server: Server) -> None:
    folder = server.root / ".workshop"
    folder.mkdir(exist_ok=True)
    (folder / "epochs=3_seed=9.json").write_text('{"pid": 1, "steps": 40, "settings": {}, "seed": 9}')
    (folder / "epochs=3_seed=9.log").write_text("loading\ntaut: no room left on <b>device</b>\n")
    page.goto("/workshop")
    under_way = page.get_by_role("region", name="Under way")
    job = under_way.get_by_role("listitem").filter(has_text="epochs=3_seed=9")
    expect(job).to_contain_text("failed")
    expect(job).to_contain_text("no room left on <b>device</b>")
    job.get_by_role("button", name="Dismiss").click()
    expect(job).to_have_count(0)
    assert list(folder.glob("epochs=3_seed=9*")) == []


def test_a_setting_that_cannot_be_is_told_in_the_configs_words(
    page: Page, server: Server, problems: list[str]
) -> None:
    page.goto("/workshop")
    answer = page.evaluate(
        """async () => {
            const { start } = await import("taut/pages/workshop/told.js");
            return start([{ settings: { "algorithm.minibatches": 7 } }]).catch((error) => error.message);
        }"""
    )
    assert "algorithm.minibatches = 7 does not divide the batch of 64 replies" in answer
    problems.clear()


def test_the_curve_of_several_seeds_is_their_mean_and_deviation(golden) -> None:
    curves = [{"x": [1, 2], "y": [0.5, 1.0]}, {"x": [1, 2, 3], "y": [0.7, 0.0, 0.25]}]
    mean, alone, within, by = golden(
        "taut/maths/seeds.js",
        [
            ("meanCurve", [curves]),
            ("meanCurve", [curves[:1]]),
            ("withinSteps", [[{"x": [1, 2], "y": [0.0, 0.1]}, {"x": [1, 2], "y": [0.2, 0.3]}]]),
            ("byEpoch", [[{"x": [1, 2], "y": [0.0, 0.1]}, {"x": [1, 2], "y": [0.2, 0.4]}]]),
        ],
    )
    assert mean["x"] == [1, 2, 3]
    assert mean["y"] == pytest.approx([0.6, 0.5, 0.25])
    low, high = mean["band"]
    assert low == pytest.approx(
        [0.6 - 0.02**0.5, 0.5 - 0.5**0.5, 0.25]
    )  # sample variances 0.02, 0.5; one seed has none
    assert high == pytest.approx([0.6 + 0.02**0.5, 0.5 + 0.5**0.5, 0.25])
    assert alone == curves[0]
    assert within == {"x": [0.5, 1, 1.5, 2], "y": [0.0, 0.2, 0.1, 0.3]}
    assert by == {"x": [1, 2], "y": pytest.approx([0.05, 0.3])}
