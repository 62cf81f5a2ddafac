"""The preflight: a good run passes; what is wrong is told on the line of its name, and the rest goes on."""

import copy

import pytest
import torch

from taut import train
from taut.config import resolve
from taut.launch import little_step, plan, preflight
from taut.launch.preflight import preflight_of


@pytest.fixture
def report(own):
    """Lines by name of a run on the tiny model with these settings."""

    def look(**settings):
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        lines = preflight_of(resolve({**own, **dotted})[0])
        return {line.name: line for line in lines}

    return look


def verdicts(lines, *names):
    return {name: lines[name].verdict for name in names}


STEP = ("ratio", "rescoring", "mismatch", "micro-batches", "mask", "pads", "weights")


@pytest.mark.parametrize("preset", ["ppo", "ppo-batch-mean", "grpo"])
def test_a_good_run_fails_no_line(report, preset):
    lines = report(algorithm__preset=preset)
    assert [line for line in lines.values() if line.verdict in ("fail", "skip")] == []
    assert set(verdicts(lines, *STEP).values()) == {"pass"}
    assert ("kl-connected" in lines) == (preset != "ppo-batch-mean")


def test_the_batch_is_worked_out(report):
    message = report(algorithm__epochs=3, algorithm__minibatches=2, learner__micro_batch_tokens=24)[
        "batch"
    ].message
    assert "4 prompts × 2 replies = 8" in message
    assert "3 epochs × 2 minibatches = 6 optimiser steps of 4 replies, 12 in 2 steps" in message
    # Prompts "1+2=" have 4 tokens, and replies at most 4.
    assert "micro-batches of 3 replies at their longest (8 tokens), 2 to a minibatch" in message


def test_two_prompts_are_shown_as_the_model_sees_them(report):
    shown = report()["prompts"].shown
    assert len(shown) == 2
    assert shown[0].endswith("'=' | the reply starts here")
    assert "row 1, 4 tokens" in shown[0]


def test_samples_are_shown_with_their_rewards(report):
    lines = report()
    assert len(lines["sampled rewards"].shown) == 4  # of the 8 of a whole step
    assert "reward" in lines["sampled rewards"].shown[0]


def test_settings_that_contradict_do_not_hide_what_else_is_wrong(report, tmp_path):
    lines = report(algorithm__minibatches=3, reward=f"{tmp_path / 'rewards.py'}:nothing")
    assert verdicts(lines, "settings", "reward", "data", "batch", "little step") == {
        "settings": "fail",
        "reward": "fail",
        "data": "pass",
        "batch": "skip",
        "little step": "skip",
    }
    assert "set it to 2 or 4" in lines["settings"].message


def test_bad_data_does_not_hide_a_misspelled_reward_and_what_is_left_out_names_the_line(report, tmp_path):
    bad = {"data__prompt_column": "nothing"}
    lines = report(**bad, reward=f"{tmp_path / 'rewards.py'}:nothing")
    assert verdicts(lines, "data", "reward", "models") == {"data": "fail", "reward": "fail", "models": "pass"}
    lines = report(**bad)
    assert (lines["reward"].verdict, lines["batch"].verdict) == ("skip", "skip")
    assert lines["reward"].message.startswith("it loads; the columns it asks for are not looked at")
    assert lines["batch"].message == "not looked at, because of data above"
    assert lines["hostile replies"].message == "not looked at, because of reward and data above"
    assert lines["time"].message == "not looked at, because of little step above"


def test_a_function_that_fails_on_hostile_replies_is_told_and_what_it_gives_shown(report, tmp_path):
    (tmp_path / "rewards.py").write_text(
        "def score(prompts, completions, **columns):\n    return [len(text) / len(text) for text in completions]\n"
    )
    line = report()["hostile replies"]
    assert line.verdict == "warn"
    assert "the reply that is empty" in line.message
    assert "ZeroDivisionError" in line.message


def test_an_empty_reply_that_earns_the_most_is_told(report, tmp_path):
    (tmp_path / "rewards.py").write_text(
        "def score(prompts, completions, **columns):\n    return [-float(len(text)) for text in completions]\n"
    )
    lines = report()
    assert lines["sampled rewards"].verdict == "warn"
    assert "an empty reply" in lines["sampled rewards"].message


def test_a_broken_function_fails_by_name(report, tmp_path):
    lines = report(reward=f"{tmp_path / 'rewards.py'}:broken")
    assert lines["hostile replies"].verdict == "fail"
    assert "oops" in lines["hostile replies"].message
    assert lines["models"].verdict == "pass"


def test_a_sampler_at_another_temperature_fails_as_mismatch(report, monkeypatch):
    make = little_step.make_sampler

    def hot(*arguments):
        sampler = make(*arguments)
        draw = sampler.policy.next_token_logits
        twin = copy.copy(sampler.policy)
        object.__setattr__(twin, "next_token_logits", lambda hidden: draw(hidden) / 1.3)
        sampler.policy = twin
        return sampler

    monkeypatch.setattr(little_step, "make_sampler", hot)
    lines = report()
    assert verdicts(lines, "mismatch", "ratio") == {"mismatch": "fail", "ratio": "pass"}


def test_dropout_fails_as_ratio(report, monkeypatch):
    load = preflight.load_policy

    def dropping(*arguments):
        policy = load(*arguments)
        policy.model.transformer.h[0].register_forward_hook(
            lambda module, inputs, output: torch.nn.functional.dropout(output, 0.1)
        )
        return policy

    monkeypatch.setattr(preflight, "load_policy", dropping)
    lines = report()
    assert lines["ratio"].verdict == "fail"
    assert "dropout" in lines["ratio"].message


def test_weights_are_as_they_were_and_nothing_is_saved(own, tmp_path):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    preflight_of(resolve(own)[0])
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: content for path, content in after.items() if "__pycache__" not in path.parts} == before


def test_a_run_that_does_not_fit_fails_by_the_term_that_takes_most(report, monkeypatch):
    monkeypatch.setattr(plan, "free_memory", lambda device: 10_000)
    line = report()["memory"]
    assert line.verdict == "fail"
    assert "10.0 kB are free: see taut plan, and save on activations" in line.message


def test_a_run_stores_what_can_be_found_before_its_weights_load(own):
    run = train(resolve(own)[0])
    found = {event["name"]: event for event in run.events() if event["kind"] == "preflight"}
    assert set(found) == {"batch", "prompts"}
    assert {event["level"] for event in found.values()} == {"info"}
    assert "4 prompts × 2 replies = 8" in found["batch"]["message"]


ENVIRONMENT = """
class Twice:
    def reset(self, row):
        self.turns = 0
        return row["prompt"]
    def step(self, reply):
        self.turns += 1
        return ("+1=", 0.25) if self.turns == 1 else (None, float(len(reply)))
"""


def test_an_environment_plays_the_episodes_of_the_little_step(report, tmp_path):
    (tmp_path / "worlds.py").write_text(ENVIRONMENT)
    lines = report(
        environment__path=f"{tmp_path / 'worlds.py'}:Twice", environment__max_turns=3, reward="environment"
    )
    failed = {name for name, line in lines.items() if line.verdict in ("fail", "skip")}
    assert failed <= {"truncation"}  # a random model rarely ends a reply
    assert any("+1=" in text for text in lines["sampled rewards"].shown)
    assert "at most 96 new tokens" in lines["batch"].message  # 8 replies of 3 turns of 4
