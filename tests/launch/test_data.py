"""Prompts from a config: several sources, what is held out, what is left out, and what the run says of it."""

import json
import string

import numpy as np
import pytest
from transformers import AutoTokenizer, GenerationConfig

from taut.config import resolve
from taut.launch.data import load_prompts, tokenizer_for
from taut.launch.local import train
from taut.launch.sft import read_examples
from taut.launch.use import sample_replies
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2

TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}={{ m.content }};0{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}={% endif %}"
)


def load(settings, **changes):
    config = resolve({**settings, **{key.replace("__", "."): value for key, value in changes.items()}})[0]
    return load_prompts(config, tokenizer_for(config.model))


@pytest.fixture
def chat(own):
    """The same model, with a chat template."""
    tokenizer = AutoTokenizer.from_pretrained(own["model.path"])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(own["model.path"])
    return own


@pytest.fixture
def second(tmp_path):
    rows = [{"prompt": f"{a}+9=", "digit": str(a), "more": a} for a in range(3)]
    (tmp_path / "second.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return str(tmp_path / "second.jsonl")


def test_several_paths_are_one_after_the_other(own, second):
    prompts = load(own, data__path=[own["data.path"], second]).training
    assert [prompt.index for prompt in prompts] == list(range(12))
    assert [prompt.text for prompt in prompts[8:]] == ["2+2=", "0+9=", "1+9=", "2+9="]
    assert {prompt.weight for prompt in prompts} == {1.0}


def test_weights_are_the_paths_shares_of_a_pass(own, second):
    prompts = load(own, data__path=[own["data.path"], second], data__weights=[1, 3]).training
    by_path = np.array([prompt.weight for prompt in prompts[:9]]), np.array([p.weight for p in prompts[9:]])
    assert [weights.sum() for weights in by_path] == pytest.approx([3, 9]), "12 rows at 1 to 3"
    assert [len(set(weights)) for weights in by_path] == [1, 1]


def test_a_limit_is_for_each_path(own, second):
    prompts = load(own, data__path=[own["data.path"], second], data__limit=2).training
    assert [prompt.text for prompt in prompts] == ["0+0=", "0+1=", "0+9=", "1+9="]


def test_the_held_out_are_drawn_with_the_seed_or_named(own):
    drawn = {**own, "data.eval_path": None, "data.held_out": 4}
    found = load(drawn)
    assert (len(found.training), len(found.held_out)) == (5, 4)
    assert not {p.index for p in found.training} & {p.index for p in found.held_out}
    assert load(drawn) == found
    assert load(drawn, run__seed=1).held_out != found.held_out
    assert [prompt.text for prompt in load(own, data__limit=4).held_out] == ["0+0=", "0+1=", "0+2="]


def test_too_few_prompts_are_told_with_both_numbers(own):
    with pytest.raises(ValueError, match=r"has 9 prompts and algorithm.prompts_per_step is 10: set it to 9"):
        load(own, algorithm__prompts_per_step=10)
    with pytest.raises(
        ValueError, match=r"data\.held_out = 6 leaves 3 of the 9 prompts of .* is 4: hold out fewer"
    ):
        load(own, data__eval_path=None, data__held_out=6)


@pytest.fixture
def with_long(own, tmp_path):
    rows = [{"prompt": "1" * length, "digit": "1"} for length in (1, 2, 3, 4, 5, 6)]
    (tmp_path / "long.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {**own, "data.path": str(tmp_path / "long.jsonl"), "data.max_prompt_tokens": 4}


def test_prompts_over_the_limit_are_skipped_on_request_and_counted(with_long):
    run = train(resolve({**with_long, "data.long_prompts": "skip"})[0])
    (event,) = of_data(run)
    assert (event["kind"], event["name"], event["level"]) == ("data", "long_prompts", "warning")
    assert event["message"] == "2 rows were skipped: longer than data.max_prompt_tokens = 4"
    assert event["data"] == {"skipped": 2}


def test_what_is_skipped_counts_where_too_few_are_left(with_long):
    skip = {**with_long, "data.long_prompts": "skip", "data.max_prompt_tokens": 3}
    with pytest.raises(ValueError, match=r"has 3 prompts of at most 3 tokens and .*prompts_per_step is 4"):
        load(skip, data__eval_path=None)
    with pytest.raises(ValueError, match=r"data\.eval_path has no prompt of at most .* = 3 tokens"):
        load(skip)
    with pytest.raises(ValueError, match="row 5: the prompt has 5 tokens"):
        load(with_long)


def test_a_run_says_what_it_does_not_take_from_the_model(chat):
    GenerationConfig(do_sample=True, temperature=0.7, top_k=20).save_pretrained(chat["model.path"])
    run = train(resolve(chat)[0])
    assert {event["name"]: (event["level"], event["message"]) for event in of_data(run)} == {
        "generation_config": (
            "info",
            "sampling settings the model ships with are not taken: temperature 0.7, top_k 20",
        ),
    }
    found = {event["name"]: event for event in run.events() if event["kind"] == "preflight"}
    assert "though the model has a chat template: set data.as_chat to true" in found["prompts"]["message"]
    assert found["prompts"]["level"] == "warning"
    assert run.last("mismatch/max") < 1e-4, "the sampler drew at the run's temperature"


def test_verls_rows_train_with_their_chat_and_verls_reward(chat, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": f"{a}+{b}"}],
            "reward_model": {"style": "rule", "ground_truth": str(a + b)},
            "extra_info": {"index": 3 * a + b},
        }
        for a in range(3)
        for b in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    (tmp_path / "rewards.py").write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    assert data_source == 'sums' and extra_info['index'] < 9\n"
        "    return float(ground_truth in solution_str)\n"
    )
    settings = {
        **chat,
        "data.path": str(tmp_path / "train.parquet"),
        "data.eval_path": None,
        "reward": f"{tmp_path / 'rewards.py'}:compute_score",
    }
    run = train(resolve(settings)[0])
    assert of_data(run) == []
    assert all(
        reply.reward == float(str(eval(reply.prompt_text[:-1])) in reply.text) for reply in run.replies(1)
    )
    assert {reply.prompt_text for reply in run.replies(1)} <= {
        f"{a}+{b}=" for a in range(3) for b in range(3)
    }
    assert load(settings).training[4].messages == ({"role": "user", "content": "1+1"},)


def test_a_text_given_by_hand_becomes_a_conversation_too(chat):
    (rollout,) = sample_replies(resolve({**chat, "data.as_chat": True})[0], ["1+2"], replies=1)
    assert rollout.prompt.text == "1+2="


@pytest.mark.parametrize("pad", [None, ";"])
def test_a_tokenizer_needs_no_pad_token_and_it_may_be_the_eos(own, pad):
    tokenizer = AutoTokenizer.from_pretrained(own["model.path"])
    tokenizer.pad_token = pad
    tokenizer.save_pretrained(own["model.path"])
    assert AutoTokenizer.from_pretrained(own["model.path"]).pad_token == pad
    run = train(resolve({**own, "algorithm.preset": "ppo"})[0])
    ended = [reply for reply in run.replies(1) if reply.finish_reason == "stop"]
    assert ended, "seed 0 ends some"
    assert all(reply.ids[-1] == tokenizer.eos_token_id and reply.mask.all() for reply in ended)


def test_a_checkpoint_keeps_the_chat_template(chat):
    run = train(resolve(chat)[0])
    folder = run.directory / "checkpoints" / "step_000002"
    assert AutoTokenizer.from_pretrained(folder).chat_template == TEMPLATE


def test_fine_tuning_reads_conversations_and_many_paths(chat, tmp_path):
    from taut.config import SFTConfig

    plain = [{"prompt": "1+2=", "completion": "3"}, {"prompt": "1+2+3+4=", "completion": "0"}]
    user, reply = {"role": "user", "content": "1+3"}, {"role": "assistant", "content": "4"}
    talk = [{"prompt": [user], "completion": "4"}, {"prompt": [user], "completion": [reply]}]
    for name, rows in (("plain", plain), ("talk", talk)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config, _ = resolve(
        {
            "model.path": chat["model.path"],
            "data.path": [str(tmp_path / "plain.jsonl"), str(tmp_path / "talk.jsonl")],
            "data.max_prompt_tokens": 4,
            "data.long_prompts": "skip",
        },
        kind=SFTConfig,
    )
    tokenizer = tokenizer_for(config.model)
    examples = [
        tokenizer.decode([*example.prompt_ids, *example.completion_ids])
        for example in read_examples(config, tokenizer)
    ]
    assert examples == ["1+2=3;", "1+3=4;", "1+3=4;"]


def test_tasks_of_reasoning_gym_train_by_name(own, tmp_path):
    pytest.importorskip("reasoning_gym")
    characters = string.ascii_letters + string.digits + " +-*/().:;?="
    save_model(
        tiny_gpt2(len(characters), characters.index(";"), seed=0, width=16, heads=2),
        character_tokenizer(characters, ";"),
        tmp_path / "letters",
    )
    task = "reasoning-gym:basic_arithmetic?max_terms=2&max_digits=1"
    settings = {
        **own,
        "model.path": str(tmp_path / "letters"),
        "data.path": f"{task}&size=6",
        "data.eval_path": f"{task}&size=2&seed=99",
        "reward": "taut.tasks.reasoning:score",
    }
    run = train(resolve(settings)[0])
    assert run.status == "finished"
    assert all(0 <= reply.reward <= 1 for reply in run.replies(2))
    assert len(load(settings).held_out) == 2


def test_the_worlds_model_may_be_scored_on_other_prompts(own):
    world = {"data.path": "careless-adder", "data.eval_path": own["data.eval_path"]}
    prompts = load({**own, **world})
    assert len(prompts.training) == 80
    assert [prompt.text for prompt in prompts.held_out] == ["0+0=", "0+1=", "0+2="]
    assert len(load({**own, **world, "data.eval_path": None}).held_out) == 200
    with pytest.raises(ValueError, match=r"nofile\.jsonl does not exist"):
        load({**own, **world, "data.eval_path": "nofile.jsonl"})


def of_data(run):
    """What the run tells of its data and of the model's own settings."""
    return [event for event in run.events() if event["kind"] == "data"]
