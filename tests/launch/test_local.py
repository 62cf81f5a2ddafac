"""A run from a config, in this process: what it leaves behind, what it repeats, and what it refuses."""

import json
import math
import threading

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2ForSequenceClassification

from taut.config import PRESETS, resolve
from taut.launch import local
from taut.models.tiny import character_tokenizer
from taut.store import Run
from taut.tasks.adder import CHARACTERS, END

train = local.train


def run_with(settings, **changes):
    return train(resolve({**settings, **{k.replace("__", "."): v for k, v in changes.items()}})[0])


def comparable(run):
    """Scalars of every step but times, and every stored array as bytes."""
    scalars = [
        {k: v for k, v in row.items() if not k.startswith(("time/", "rate/", "system/"))}
        for row in run.scalars()
    ]
    tokens = [
        (r.ids.tobytes(), r.behavior_logprobs.tobytes(), r.old_logprobs.tobytes(), r.advantages.tobytes())
        for step in (1, 2)
        for r in run.replies(step)
    ]
    return scalars, tokens


def checkpoint_weights(run, step=2):
    folder = run.directory / "checkpoints" / f"step_{step:06d}"
    return AutoModelForCausalLM.from_pretrained(folder).state_dict()


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_trains_any_model(own, preset):
    run = run_with(own, algorithm__preset=preset)
    assert run.status == "finished"
    rows = run.scalars()
    assert [row["step"] for row in rows] == [0, 1, 2]
    for row in rows:
        assert all(math.isfinite(value) for value in row.values()), row
    assert rows[1]["clip/epoch_1"] == 0, "the first epoch is the policy that sampled"
    assert rows[1]["update/steps"] == 4
    assert rows[1]["mismatch/max"] < 1e-4
    assert {"eval/accuracy", "eval/greedy"} <= set(rows[0]) & set(rows[2])
    assert ("value/explained_variance" in rows[2]) == (preset == "ppo")


def test_the_same_config_and_seed_give_the_same_run_bit_for_bit(own):
    settings = {**own, "algorithm.preset": "ppo", "algorithm.minibatches": 2}
    first, second = run_with(settings, run__name="a"), run_with(settings, run__name="b")
    assert comparable(first) == comparable(second)
    a, b = checkpoint_weights(first), checkpoint_weights(second)
    assert all(torch.equal(a[name], b[name]) for name in a)
    other = run_with(settings, run__name="c", run__seed=1)
    assert comparable(other)[1] != comparable(first)[1]


def test_a_run_stores_what_was_sampled_and_trained(own):
    run = run_with(own, algorithm__preset="ppo")
    batch = run.batch(2)
    assert batch.reply_ids.shape[0] == 8
    assert len(batch.updates) == 4
    assert (batch.response_mask.sum(1) == batch.lengths).all()
    assert batch.constants["clip_high"] == 0.2
    assert batch.constants["kl_coefficient"] == 0.05
    for name in (
        "old_logprobs",
        "ref_logprobs",
        "values",
        "entropy",
        "token_rewards",
        "advantages",
        "returns",
    ):
        assert getattr(batch, name).shape == batch.reply_ids.shape, name
    reply = run.replies(2)[0]
    assert reply.reward == float(reply.prompt_text[0] in reply.text)
    assert reply.version == 1, "step 2 samples from the weights after one update"
    assert Run.open(run.directory).config["algorithm"]["preset"] == "ppo"


def test_the_checkpoint_is_a_plain_transformers_folder_with_the_trained_weights(own):
    run = run_with(own)
    before = AutoModelForCausalLM.from_pretrained(own["model.path"]).state_dict()
    after = checkpoint_weights(run)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_observers_hear_of_every_step(own):
    heard = []
    train(resolve(own)[0], observers=[lambda step, metrics: heard.append((step, "reward/mean" in metrics))])
    assert heard == [(0, False), (1, True), (2, True)]


def refuse_to_load(*args, **kwargs):
    raise AssertionError("weights were loaded before the mistake was found")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm__prompts_per_step": 10}, r"9 prompts and algorithm.prompts_per_step is 10"),
        ({"data__limit": 3}, r"3 prompts and algorithm.prompts_per_step is 4"),
        ({"algorithm__minibatches": 3}, "does not divide the batch of 8 replies"),
        ({"data__path": "nowhere.jsonl"}, "nowhere.jsonl does not exist"),
        ({"data__prompt_column": "question"}, "no column .question.*prompt, digit, answer"),
        ({"reward": "exact_match"}, "or name a function as .*did you mean exact-match"),
        ({"data__max_prompt_tokens": 2}, "has 4 tokens, more than data.max_prompt_tokens = 2"),
        ({"sampling__max_new_tokens": 61}, "beyond the model's 64 positions: set it to 60 or less"),
        ({"algorithm__preset": "rloo", "algorithm__replies_per_prompt": 1}, "set it to 2 or more"),
        ({"algorithm__advantage": "group-mean", "algorithm__replies_per_prompt": 1}, "set it to 2 or more"),
    ],
)
def test_a_mistake_is_told_before_weights_load_and_leaves_nothing(
    own, tmp_path, monkeypatch, changes, message
):
    monkeypatch.setattr(local, "load_policy", refuse_to_load)
    with pytest.raises(ValueError, match=message):
        run_with(own, **changes)
    assert not (tmp_path / "runs" / "own").exists()


def test_a_reward_that_raises_ends_the_run_and_names_itself(own, tmp_path):
    with pytest.raises(ValueError, match=r"reward function broken raised KeyError: 'oops'"):
        run_with(own, reward=f"{tmp_path / 'rewards.py'}:broken")
    assert Run.open(tmp_path / "runs" / "own").status == "failed"


def test_a_run_directory_is_never_written_into(own, tmp_path):
    first = run_with(own)
    before = first.scalars()
    with pytest.raises(ValueError, match="own"):
        run_with(own)
    assert first.scalars() == before


def test_exact_match_needs_its_column(own, tmp_path):
    (tmp_path / "bare.jsonl").write_text("\n".join(json.dumps({"prompt": f"{n}="}) for n in range(9)))
    with pytest.raises(ValueError, match="needs a column 'answer'"):
        run_with(own, reward="exact-match", data__path=str(tmp_path / "bare.jsonl"))


def test_functions_at_hand_take_the_place_of_the_configs_reward(own):
    def short(completions, **_):
        return [-len(text) for text in completions]

    def right(digit, completions, **_):
        return [float(d in text) for d, text in zip(digit, completions, strict=True)]

    run = train(resolve(own)[0], reward={right: 1.0, short: 0.5})
    assert run.config["reward"] == "1*right + 0.5*short"
    reply = run.replies(2)[0]
    assert reply.terms == {"right": float(reply.prompt_text[0] in reply.text), "short": -len(reply.text)}
    assert reply.reward == reply.terms["right"] + 0.5 * reply.terms["short"]


def test_two_functions_of_one_name_keep_two_metrics(own):
    reward = own["reward"]
    run = run_with(own, reward=f"{reward} + 2*{reward}")
    assert run.last("reward/score") == run.last("reward/score-2")
    assert run.last("reward/mean") == pytest.approx(3 * run.last("reward/score"))


def test_a_reply_on_which_a_function_failed_is_stored_and_trains_nothing(own, tmp_path):
    (tmp_path / "rewards.py").write_text(
        "def score(completions, **_):\n"
        "    assert '1' not in ''.join(completions), 'a one'\n"
        "    return [1.0] * len(completions)\n"
    )
    run = run_with(own, scoring__on_failure="exclude")
    failed = [reply for reply in run.replies(1) if reply.failures]
    assert failed
    assert all(math.isnan(reply.reward) and not reply.mask.any() for reply in failed)
    assert all((reply.advantages == 0).all() for reply in failed)
    why = f"raised AssertionError: a one, at {tmp_path / 'rewards.py'}:2"
    assert {reply.failures["score"] for reply in failed} == {why}
    assert run.series("reward/score/failed")[1][0] == len(failed) == run.series("reply/excluded")[1][0]


def test_verifiers_go_by_name_and_add_up(own):
    run = run_with(own, reward="numeric + 0*exact-match + 0.5*think-format")
    reply = run.replies(2)[0]
    assert reply.terms.keys() == {"numeric", "exact-match", "think-format"}
    assert reply.reward == reply.terms["numeric"] + 0.5 * reply.terms["think-format"]


def test_a_reward_model_scores_beside_a_function(own, tmp_path):
    tokenizer = character_tokenizer(CHARACTERS, END)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": len(CHARACTERS)}
    judge = GPT2ForSequenceClassification(GPT2Config(**sizes, pad_token_id=12, num_labels=1))
    judge.save_pretrained(tmp_path / "judge")
    tokenizer.save_pretrained(tmp_path / "judge")
    run = run_with(own, reward=f"2*model:{tmp_path / 'judge'} + {own['reward']}", scoring__normalize=True)
    reply = run.replies(2)[0]
    assert reply.terms.keys() == {"judge", "score"}
    assert reply.reward == pytest.approx(2 * reply.terms["judge"] + reply.terms["score"])
    assert run.last("reward/shaped") != run.last("reward/mean")


def test_a_function_that_cannot_travel_is_told_before_anything_runs(own):
    lock = threading.Lock()

    def guarded(prompts, completions, **columns):
        with lock:
            return [0.0 for _ in completions]

    with pytest.raises(ValueError, match=r"reward function guarded cannot be sent to its process.*lock"):
        train(resolve(own)[0], reward=guarded)
