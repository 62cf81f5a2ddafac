"""The examples of docs/environments.md for other libraries' environments, trained in."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import string
from pathlib import Path
from typing import Any

import pytest

from taut import Run, train
from taut.config import SFTConfig, resolve
from taut.launch.sft import fine_tune_model
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role[0] + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>a\n' }}{% endif %}"
)
"""With short roles: a tiny model has 64 positions."""
BEFORE, BEHIND = '<tool_call>{"name": "guess", "arguments": {"guess": ', "}}</tool_call>"
"""Around a guess; one id each."""


def example(name: str, folder: Path) -> Path:
    """A file of the page's, by the comment it begins with."""
    text = PAGE.read_text(encoding="utf-8").partition(f"```python\n# {name}\n")[2].partition("```")[0]
    assert text, f"{PAGE.name} has no {name}"
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_class_for_trl_plays(tmp_path):
    environment = loaded(example("guess.py", tmp_path)).environment()
    assert environment.reset({"prompt": [{"role": "user", "content": "Guess."}], "number": 7}) == [
        {"role": "user", "content": "Guess. It has one digit."}
    ]
    assert environment.step(f"{BEFORE}3{BEHIND}")[0] == [
        {"role": "tool", "name": "guess", "content": "wrong"}
    ]
    assert environment.step(f"{BEFORE}7{BEHIND}")[0] == [
        {"role": "tool", "name": "guess", "content": "right"}
    ]
    assert environment.step("ok") == (None, 1.0)


def test_the_pages_environment_of_verifiers_plays(tmp_path):
    pytest.importorskip("verifiers")
    module = loaded(example("guess_vf.py", tmp_path))
    row = module.load_environment().get_dataset().to_list()[7]
    environment = module.environment()
    with asyncio.Runner() as runner:
        assert runner.run(environment.reset(row)) == [{"role": "user", "content": "Guess a digit."}]
        assert runner.run(environment.step("3")) == ([{"role": "user", "content": "wrong"}], 0.0)
        assert runner.run(environment.step("7")) == (None, 1.0)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def guessing_model(folder: Path, prompt: list[dict[str, str]], guesses: list[str]) -> str:
    """A tiny model that answers `prompt` with any of the guesses, and what it is then told with "ok"."""
    tokenizer = character_tokenizer(string.printable[:95].replace(";", "") + "\n;", ";")
    tokenizer.add_tokens([BEFORE, BEHIND])
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = CHATML
    save_model(tiny_gpt2(len(tokenizer), tokenizer.eos_token_id, seed=0), tokenizer, folder / "untrained")
    rows = []
    for guess in guesses:
        told = [*prompt, {"role": "assistant", "content": guess}, {"role": "tool", "content": "wrong"}]
        rows += [{"prompt": prompt, "completion": guess}, {"prompt": told, "completion": "ok"}]
    settings = {
        "model.path": str(folder / "untrained"),
        "data.path": write_rows(folder / "demonstrations.jsonl", rows),
        "sft.output": str(folder / "model"),
        "sft.batch_size": 20,
        "run.steps": 60,
        "run.threads": 1,
        "optimizer.learning_rate": 3e-3,
    }
    return str(fine_tune_model(resolve(settings, kind=SFTConfig)[0]))


def trained(folder: Path, model: str, data: str, environment: str, **settings: Any) -> Run:
    common = {
        "run.root": str(folder / "runs"),
        "run.steps": 12,
        "run.threads": 1,
        "model.path": model,
        "data.path": data,
        "environment.path": environment,
        "environment.max_turns": 3,
        "sampling.max_new_tokens": 6,
        "algorithm.preset": "grpo",
        "algorithm.prompts_per_step": 4,
        "algorithm.replies_per_prompt": 16,
        "optimizer.learning_rate": 1e-3,
    }
    return train(resolve({**common, **settings})[0])


@pytest.mark.learning
def test_a_policy_learns_to_call_the_tool_of_trls_class_as_it_pays(tmp_path):
    prompt = [{"role": "user", "content": "Guess."}]
    opening = [{"role": "user", "content": "Guess. It has one digit."}]
    model = guessing_model(tmp_path, opening, [f"{BEFORE}{digit}{BEHIND}" for digit in range(10)])
    data = write_rows(tmp_path / "rows.jsonl", [{"prompt": prompt, "number": 7}] * 4)
    run = trained(tmp_path, model, data, f"{example('guess.py', tmp_path)}:environment")
    paid = run.series("reward/environment")[1]
    assert paid[0] < 0.3  # one guess of ten is right
    assert paid[-1] > 0.8
    assert run.last("reward/environment/tool_calls") > 0.8
    assert run.last("reward/environment/reward_func") == pytest.approx(paid[-1])


@pytest.mark.learning
def test_a_policy_learns_what_a_rubric_of_verifiers_pays(tmp_path):
    pytest.importorskip("verifiers")
    page = example("guess_vf.py", tmp_path)
    rows = loaded(page).load_environment().get_dataset().to_list()[7:8] * 4  # seven is the answer
    model = guessing_model(tmp_path, rows[0]["prompt"], [str(digit) for digit in range(10)])
    run = trained(tmp_path, model, write_rows(tmp_path / "rows.jsonl", rows), f"{page}:environment")
    paid = run.series("reward/environment")[1]
    assert paid[-1] > max(0.8, paid[0] + 0.3)
    assert run.last("reward/environment/right") == pytest.approx(paid[-1])
