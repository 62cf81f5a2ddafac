"""The benches: what is dragged moves the numbers, the address keeps them, and the Python beside prints the same."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

expect.set_options(timeout=20_000)  # a machine that is busy with other things is no fault


def numbers(cells: Locator) -> list[float]:
    return [float(text.replace("−", "-").replace("+", "")) for text in cells.all_inner_texts()]


def printed(page: Page) -> list[str]:
    """What the Python on the page prints."""
    source = page.locator(".bench-code pre").inner_text()
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def shown(page: Page, name: str) -> list[float]:
    cells = page.locator(f'[data-cell="{name}"]')
    cells.first.wait_for()
    return numbers(cells)


def soon(page: Page, name: str, wanted: Callable[[list[float]], bool]) -> list[float]:
    """The numbers shown, once they are as they should be; or what they are after 20 seconds."""
    for _ in range(200):
        if wanted(found := shown(page, name)):
            break
        page.wait_for_timeout(100)
    return found


def test_gae_shows_what_its_python_prints(page: Page) -> None:
    page.goto("/benches?bench=gae&lam=0.9&gamma=0.97&cut=1&v=0.4,0.45,0.41,0.5,0.3,0.75,0.85,-0.9")
    advantages, returns = (ast.literal_eval(line) for line in printed(page))
    assert advantages == shown(page, "advantage")
    assert returns == shown(page, "return")


def test_gae_is_dragged_by_mouse_and_by_keyboard(page: Page) -> None:
    page.goto("/benches")
    before = shown(page, "advantage")
    handle = page.get_by_role("slider", name="Value before token 5, 10")
    box = handle.locator(".handle-dot").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 30, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"v=0\.4"))
    moved = float(handle.get_attribute("aria-valuenow") or "nan")
    assert moved > 0.4
    # A value enters its own advantage with -1 times itself, and that before it through γ (1 - λ).
    after = soon(page, "advantage", lambda now: now != before)
    assert after[4] == pytest.approx(before[4] - (moved - 0.3), abs=2e-3)
    assert after[3] == pytest.approx(before[3] + 0.05 * (moved - 0.3), abs=2e-3)
    assert after[5:] == before[5:]
    reward = page.get_by_role("slider", name="Reward of token 1, 17")
    reward.focus()
    page.keyboard.press("Shift+ArrowUp")
    expect(reward).to_have_attribute("aria-valuenow", "0.5")
    page.keyboard.press("ArrowDown")
    expect(reward).to_have_attribute("aria-valuenow", "0.45")
    expect(page).to_have_url(re.compile("r=0.45"))
    page.reload()
    expect(page.get_by_role("slider", name="Reward of token 1, 17")).to_have_attribute(
        "aria-valuenow", "0.45"
    )
    assert shown(page, "r")[0] == 0.45


def test_gae_without_a_critic_and_with_lambda_zero(page: Page) -> None:
    page.goto("/benches?lam=0")
    assert shown(page, "advantage") == shown(page, "delta")
    page.goto("/benches?lam=1&critic=0")
    assert shown(page, "advantage") == [1.0] * 8, "the whole reward to come"
    assert page.get_by_role("slider", name="Value before token 5, 10").count() == 0


def test_a_cut_reply_ends_in_the_critics_value(page: Page) -> None:
    page.goto("/benches?r=0,0,0,0,0,0,0,0&lam=1&boot=0.5")
    assert shown(page, "return")[7] == 0
    page.locator("label.toggle", has_text="Reply was cut").click()
    assert soon(page, "return", lambda now: now[7] != 0) == [0.5] * 8
    page.get_by_role("slider", name="Value after the last token").press("ArrowUp")
    assert soon(page, "return", lambda now: now[7] != 0.5) == [0.55] * 8


@pytest.mark.parametrize("placement", ["loss", "reward"])
def test_kl_shows_what_its_python_prints(page: Page, placement: str) -> None:
    page.goto(f"/benches?bench=kl&place={placement}&pi=0.5,0.3,0.15,0.05&ref=0.2,0.2,0.4,0.2")
    lines = printed(page)
    values, gradients = shown(page, "value"), shown(page, "gradient")
    for row, line in enumerate(lines[:3]):
        name, value, gradient = line.split(" ", 2)
        assert name == f"k{row + 1}"
        assert float(value) == values[row]
        assert ast.literal_eval(gradient) == gradients[4 * row : 4 * row + 4]
    assert float(lines[3].split()[1]) == values[3]
    said = {
        "loss": ["none: it trains nothing", "that of KL(π‖ref)", "that of KL(ref‖π)"],
        "reward": ["that of KL(π‖ref)", "no KL's", "no KL's"],
    }
    rows = page.get_by_role("table").locator("tbody tr")
    assert [rows.nth(row).locator("td").last.inner_text() for row in range(3)] == said[placement]


def test_kl_is_dragged(page: Page) -> None:
    page.goto("/benches?bench=kl")
    bar = page.get_by_role("slider", name="π, token a")
    bar.focus()
    page.keyboard.press("Shift+ArrowDown")
    expect(bar).to_have_attribute("aria-valuetext", "45.0 %")
    others = [page.get_by_role("slider", name=f"π, token {name}") for name in "bcd"]
    parts = [float(other.get_attribute("aria-valuenow") or "nan") for other in others]
    assert sum(parts) == pytest.approx(0.55, abs=1e-5)
    assert parts[0] / parts[1] == pytest.approx(25 / 15, rel=1e-4)
    x = page.get_by_role("slider", name="x", exact=True).first
    x.focus()
    page.keyboard.press("ArrowRight")
    expect(x).to_have_attribute("aria-valuenow", "0.75")
    expect(page).to_have_url(re.compile("x=0.75"))


@pytest.mark.parametrize("kind", ["batch-mean", "group-mean", "group-standardized", "leave-one-out"])
def test_baselines_show_what_their_python_prints(page: Page, kind: str) -> None:
    page.goto(f"/benches?bench=baselines&base={kind}&groups=1,0,0.35,1;1,1,1;0,0.25,0.5")
    assert ast.literal_eval(printed(page)[0]) == shown(page, kind)


def test_a_group_of_equal_rewards_vanishes_and_is_told(page: Page) -> None:
    page.goto("/benches?bench=baselines&base=group-mean")
    told = page.get_by_text("the group vanishes")
    expect(told).to_have_count(1)
    page.get_by_role("slider", name="Reward of reply 1 to prompt 2").press("Shift+ArrowDown")
    expect(told).to_have_count(0)
    page.get_by_role("button", name="Make equal").first.click()
    expect(told).to_have_count(1)
    page.locator("label", has_text="batch mean").click()
    expect(told).to_have_count(0)
    expect(page.get_by_text("All equal, and yet it pushes")).to_have_count(1)


def test_loss_aggregation_shows_what_its_python_prints(page: Page) -> None:
    page.goto("/benches?bench=loss&lengths=3,11,40&constant=50")
    weights, below = shown(page, "weight"), shown(page, "denominator")
    for row, line in enumerate(printed(page)):
        name, divided, rest = line.split(" ", 2)
        assert name == ("token", "sequence", "constant")[row]
        assert float(divided) == below[row]
        assert ast.literal_eval(rest) == weights[3 * row : 3 * row + 3]
    page.get_by_role("slider", name="Reply 1", exact=True).press("ArrowRight")
    assert soon(page, "denominator", lambda now: now != below) == [55, 3, 150]


def test_memory_shows_what_its_python_prints(page: Page) -> None:
    page.goto("/benches?bench=memory&size=SmolLM2-135M&reply=256&kl=0")
    page.locator("[data-bytes]").first.wait_for(timeout=120_000)
    page.locator("label.toggle", has_text="Critic").first.click()  # off, which asks the server nothing
    expect(page).to_have_url(re.compile("critic=0"))
    *terms, peak = (line.rsplit(": ", 1) for line in printed(page))
    rows = page.locator("tbody tr")
    assert [rows.nth(row).locator("td").first.inner_text() for row in range(len(terms))] == [
        t[0] for t in terms
    ]
    sizes = [cell.get_attribute("data-bytes") for cell in page.locator("[data-bytes]").all()]
    assert sizes == [term[1] for term in terms]
    gigabytes = re.search(r"At the peak: ([0-9.]+) GB", page.get_by_role("main").inner_text())
    assert gigabytes is not None
    assert float(gigabytes[1]) == pytest.approx(int(peak[1]) / 1e9, abs=0.05)
    assert not any(name.startswith(("critic", "reference")) for name, _ in terms)


@pytest.mark.parametrize("bench", ["gae", "kl", "baselines", "loss"])
def test_an_address_that_makes_no_sense_shows_the_defaults(page: Page, bench: str) -> None:
    page.goto(f"/benches?bench={bench}")
    source = page.locator(".bench-code pre")
    plain = source.inner_text()
    for garbage in ("x", "1e999", "1,2", "<img src=x>", "-1;;", "NaN,0,0,0,0,0,0,0"):
        keys = (
            "r",
            "v",
            "gamma",
            "lam",
            "t",
            "boot",
            "x",
            "pi",
            "ref",
            "groups",
            "base",
            "lengths",
            "constant",
        )
        page.goto(f"/benches?bench={bench}" + "".join(f"&{key}={garbage}" for key in keys))
        expect(source).to_have_text(plain)
        assert "NaN" not in page.get_by_role("main").inner_text()
