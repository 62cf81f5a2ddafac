"""The example of the calculator: its parts, at a small size."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from taut.config import check, read_yaml, resolve

FOLDER = Path(__file__).parents[1] / "examples" / "calculator"


def load(name):
    spec = importlib.util.spec_from_file_location(f"calculator_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def calculator():
    return load("calculator")


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def from_the_page():
    page = (FOLDER.parents[1] / "docs" / "environments.md").read_text(encoding="utf-8")
    found = {}
    exec(page.partition("```python\n")[2].partition("```")[0], found)
    return found["Calculator"]


@pytest.mark.parametrize("make", [lambda: load("environment").Calculator, from_the_page])
def test_the_calculator_answers_once_and_pays_for_the_right_sum(make):
    world = make()()
    assert world.reset({"prompt": "123+456="}) == "123+456="
    assert world.step("?") == ("579=", 0.0)
    assert world.logged == {"called": 1.0}
    assert world.step("?") == (None, 0.0)
    world.reset({"prompt": "123+456="})
    assert world.logged == {"called": 0.0}
    assert world.step("579") == (None, 1.0)
    assert world.step("578") == (None, 0.0)


def test_a_fifth_of_the_demonstrations_call_and_no_held_out_sum_is_shown(calculator, tmp_path):
    calculator.write_data(tmp_path, seed=0)
    shown, held_out = (rows(tmp_path / f"{name}.jsonl") for name in ("demonstrations", "held_out"))
    first = [row for row in shown if "?" not in row["prompt"]]
    calls = [row for row in first if row["completion"] == "?"]
    assert len(first) == 4000
    assert len(calls) / len(first) == pytest.approx(0.2, abs=0.03)
    own = [row for row in first if row["completion"] != "?"]
    right = [str(eval(row["prompt"][:-1])) == row["completion"] for row in own]
    assert sum(right) / len(right) == pytest.approx(0.73**3, abs=0.1), "each digit is right in 0.7 + 0.03"
    second = [row for row in shown if "?" in row["prompt"]]
    assert len(second) == len(calls)
    for row in second:
        question, told = row["prompt"].split("?;")
        assert row["completion"] + "=" == told == f"{eval(question[:-1])}="
    assert not {row["prompt"] for row in held_out} & {row["prompt"] for row in first}


def test_its_settings_are_whole():
    check(resolve(read_yaml(FOLDER / "config.yaml"))[0])


def test_its_claims_can_fail(calculator):
    def row(before, after, first, last):
        return {
            "held_out_accuracy_before": before,
            "held_out_accuracy": after,
            "calls_at_first": first,
            "calls": last,
        }

    learned = calculator.make_claims([row(0.2, 0.95, 0.2, 0.99), row(0.2, 0.9, 0.3, 0.95)])
    assert [claim["holds"] for claim in learned] == [True, True]
    flat = calculator.make_claims([row(0.2, 0.95, 0.2, 0.99), row(0.2, 0.5, 0.2, 0.3)])
    assert [claim["holds"] for claim in flat] == [False, False]


@pytest.mark.learning
def test_ppo_teaches_it_to_ask(calculator, tmp_path):
    row = calculator.learn(tmp_path, seed=0, sft_steps=500, ppo_steps=15)
    assert row["calls_at_first"] < 0.45
    assert row["calls"] > 2 * row["calls_at_first"]
    assert row["held_out_accuracy"] > row["held_out_accuracy_before"] + 0.2
