"""A run in an environment, from a file or a class at hand, and what is told before any weights load."""

from __future__ import annotations

import numpy as np
import pytest

from taut.config import check, resolve
from taut.launch.local import train
from taut.launch.preflight import preflight_of
from taut.launch.replay import replay
from taut.launch.use import config_of_run, evaluate_model, sample_replies
from taut.models.save import save_model
from taut.models.tiny import tiny_gpt2

ENVIRONMENTS = """
class Again:
    \"\"\"Asks once more after the first turn; fails where the first digit of the sum is 2.\"\"\"
    def reset(self, row):
        self.row, self.turns = row, 0
        return row["prompt"]
    def step(self, reply):
        self.turns += 1
        self.logged = {"characters": len(reply)}
        if self.row["digit"] == "2":
            raise RuntimeError("not this one")
        return ("+1=", 0.25) if self.turns == 1 else (None, 0.5)

class Chat(Again):
    def reset(self, row):
        super().reset(row)
        return [{"role": "user", "content": row["prompt"]}]
    def step(self, reply):
        told, paid = super().step(reply)
        return (told and [{"role": "user", "content": told}]), paid

class Broken(Again):
    def reset(self, row):
        return {}["gold"]

class Silent(Again):
    def reset(self, row):
        return ""

class Fails(Again):
    def step(self, reply):
        raise RuntimeError("nothing works")
"""


@pytest.fixture
def world(own, tmp_path):
    """The settings of `own` in an environment, with its two kinds of end: turns and failures."""
    (tmp_path / "worlds.py").write_text(ENVIRONMENTS)
    settings = {key: value for key, value in own.items() if key != "reward"}
    return {**settings, "environment.path": f"{tmp_path / 'worlds.py'}:Again", "environment.max_turns": 3}


def test_a_run_in_an_environment_trains_on_what_it_sampled(world):
    config = resolve(world, {"algorithm.preset": "ppo", "kl.placement": "reward", "run.steps": 3})[0]
    check(config)
    assert config.reward == "environment"
    run = train(config)
    passed = {name for name, event in run.checks().items() if event["level"] == "info"}
    assert {"rescoring", "mismatch", "micro-batches", "mask", "pads", "kl-connected"} <= passed
    (start, *steps) = run.scalars()
    assert 0 <= start["eval/accuracy"] <= 0.75
    for step in steps:
        assert step["mismatch/max"] < 1e-4
        assert 1 <= step["reply/turns"] <= 2
        assert step["reward/environment"] == pytest.approx(step["reward/mean"])
    assert sum(step.get("reward/environment/failed", 0) for step in steps) > 0
    assert any("reward/environment/characters" in step for step in steps)
    several = [r for step in (1, 2, 3) for r in run.replies(step) if r.mask.any() and not r.mask.all()]
    assert several
    for reply in several:
        seen = np.isfinite(reply.behavior_logprobs)
        assert np.array_equal(seen, reply.mask)
        assert reply.terms == {"environment": 0.75 if reply.finish_reason == "stop" else 0.25}
        gap = reply.ids[~reply.mask]
        assert gap.tolist() == [10, 1, 11], "+1="
        np.testing.assert_allclose(reply.behavior_logprobs[seen], reply.old_logprobs[seen], atol=1e-4)
        assert not reply.advantages[~reply.mask].any()
    failed = [r for step in (1, 2, 3) for r in run.replies(step) if r.failures]
    assert failed
    for reply in failed:
        assert reply.failures["environment"].startswith("raised RuntimeError: not this one, at ")
        assert not reply.mask.any()
        assert np.isnan(reply.reward)

    assert replay(run.directory, 3).differences == []
    config = config_of_run(run)
    assert evaluate_model(config)["eval/accuracy"] == pytest.approx(run.last("eval/accuracy"), abs=1e-6)
    replies = sample_replies(config, None, replies=2)
    assert {reply.episode.turns for reply in replies} <= {1, 2}
    with pytest.raises(ValueError, match="--prompt, row 1: the model's tokenizer cannot encode 'hello'"):
        sample_replies(config, ["hello"], replies=2)


def test_held_out_failures_are_warnings_of_the_run_and_of_an_evaluation(world):
    """Replies to a third of the 9 prompts fail if they end; each prompt has 4 sampled replies and a greedy one."""
    config = resolve(world, {"data.eval_path": world["data.path"], "run.steps": 1, "eval.every": 0})[0]
    run = train(config)
    [event] = [event for event in run.events() if event["kind"] == "evaluation"]
    warnings = []
    scores = evaluate_model(config_of_run(run), lambda step, message: warnings.append(message))
    failed = round(45 * run.last("eval/failed"))
    assert 0 < failed <= 15
    for told in (event["message"], *warnings):
        start = f"{failed} of 45 held-out replies have no reward: the environment raised RuntimeError: not this one"
        assert told.startswith(start)
    assert (event["level"], event["step"], len(warnings)) == ("warning", 1, 1)
    assert scores["eval/failed"] == run.last("eval/failed")


def test_a_class_at_hand_and_a_function_added_to_what_it_pays(world):
    class Once:
        def reset(self, row):
            return row["prompt"]

        def step(self, reply):
            return None, 1.0

    def half(completions, **columns):
        return [0.5] * len(completions)

    settings = {key: value for key, value in world.items() if key != "environment.path"}
    run = train(resolve(settings)[0], environment=Once, reward={half: 2.0})
    assert run.config["environment"]["path"] == "Once"
    assert run.config["reward"] == "environment + 2*half"
    for reply in run.replies(1):
        assert reply.terms == {"environment": 0.0 if reply.finish_reason == "length" else 1.0, "half": 0.5}
        assert reply.reward == reply.terms["environment"] + 1.0
    alone = train(resolve(settings, {"run.name": "alone"})[0], environment=Once)
    assert alone.config["reward"] == "environment"


def test_a_conversation_of_several_turns_reaches_a_reward_function_as_messages(
    world, chat_tokenizer, tmp_path
):
    save_model(
        tiny_gpt2(len(chat_tokenizer), chat_tokenizer.eos_token_id, seed=0, width=16, heads=2),
        chat_tokenizer,
        tmp_path / "chat",
    )
    (tmp_path / "rewards.py").write_text(
        "def turns(completions, **columns):\n"
        "    return [float('.'.join(m['role'] for m in c) == 'assistant.user.assistant') for c in completions]\n"
    )
    settings = {
        **world,
        "model.path": str(tmp_path / "chat"),
        "environment.path": world["environment.path"].replace("Again", "Chat"),
        "reward": f"environment + 0.5*{tmp_path / 'rewards.py'}:turns",
        "sampling.max_new_tokens": 12,
        "algorithm.replies_per_prompt": 16,
        "run.steps": 1,
    }
    run = train(resolve(settings)[0])
    replies = run.replies(1)
    several = [r for r in replies if r.mask.any() and not r.mask.all()]
    assert several, "some replies end their first turn of themselves"
    told = chat_tokenizer.encode("\n<|im_start|>user\n+1=<|im_end|>\n<|im_start|>assistant\n")
    for reply in several:
        assert reply.ids[~reply.mask].tolist() == told
        assert reply.terms["turns"] == 1.0
    for reply in replies:
        assert reply.prompt_text.endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert not reply.mask.any() or reply.terms["turns"] == (not reply.mask.all())


def test_checks_see_through_what_an_environment_said(world):
    """Before the run and during it: masks, pads and logprobs of replies with observations are in order."""
    settings = resolve(world, {"algorithm.preset": "ppo", "sampling.max_new_tokens": 16, "run.steps": 1})[0]
    lines = {line.name: line for line in preflight_of(settings)}
    assert [line for line in lines.values() if line.verdict == "fail"] == []
    for name in ("ratio", "mismatch", "mask", "pads", "micro-batches"):
        assert lines[name].verdict == "pass", name
    # The environment paid them: 0.25 and 0.5 for two turns, nothing for the turn that was cut.
    assert "empty 0.75, blank 0.75, huge 0, " in lines["hostile replies"].message
    run = train(settings)
    assert any(r.mask.any() and not r.mask.all() for r in run.replies(1))
    found = run.checks()
    assert {found[name]["level"] for name in ("mismatch", "mask", "pads")} == {"info"}
    assert [check for check in found.values() if check["level"] == "error"] == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environment.path": "worlds.py"}, r"environment\.path = worlds\.py must name a class as file\.py:Class"),
        ({"environment.path": "nowhere.py:World"}, r"environment nowhere\.py:World: .*there is no file nowhere\.py"),
        ({"environment.path": "WORLDS:Nothing"}, r"has no Nothing; it has Again, Chat"),
        ({"environment.path": "WORLDS:Broken"}, r"row 1: reset of environment Broken raised KeyError: 'gold', at "),
        ({"environment.path": "WORLDS:Silent"}, r"row 1 is empty"),
        ({"environment.path": "WORLDS:Chat"}, r"row 1 is a conversation, and the model's tokenizer has no chat"),
        ({"environment.path": None, "reward": "environment"}, r"there is none: set environment\.path"),
        ({"environment.path": None, "reward": "numeric"}, r"max_turns = 3 limits the turns .* and there is none"),
        ({"reward": "numeric"}, r"reward = numeric leaves out what the environment pays.*environment \+ numeric"),
        ({"data.max_prompt_tokens": 3}, r"row 1: the prompt has 4 tokens"),
    ],
)  # fmt: skip
def test_mistakes_are_told_before_any_weights_load(world, tmp_path, monkeypatch, changes, message):
    def no_weights(*_):
        raise AssertionError("weights were loaded")

    monkeypatch.setattr("taut.launch.local.load_policy", no_weights)
    named = {
        key: value.replace("WORLDS", str(tmp_path / "worlds.py")) if isinstance(value, str) else value
        for key, value in changes.items()
    }
    with pytest.raises(ValueError, match=message):
        train(resolve(world, named)[0])


def test_a_run_ends_where_every_episode_fails_or_the_first_must_not(world):
    fails = world["environment.path"].replace("Again", "Fails")
    settings = {**world, "eval.every": 0, "sampling.max_new_tokens": 20}
    with pytest.raises(ValueError, match=r"nothing works.*at .*worlds\.py"):
        train(resolve(settings, {"environment.path": fails, "scoring.on_failure": "stop"})[0])
