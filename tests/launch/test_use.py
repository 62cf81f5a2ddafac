"""Models outside a run: fine-tuned, scored and sampled."""

import json

import pytest
from transformers import AutoModelForCausalLM

from taut.config import SFTConfig, resolve
from taut.launch.local import train
from taut.launch.sft import fine_tune_model
from taut.launch.use import config_of_run, evaluate_model, sample_replies


@pytest.fixture
def sft(own, tmp_path):
    rows = [{"prompt": f"{a}+{b}=", "completion": str(a + b)} for a in range(5) for b in range(5)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {
        "run.steps": 300,
        "run.threads": 1,
        "model.path": own["model.path"],
        "data.path": str(tmp_path / "pairs.jsonl"),
        "sft.output": str(tmp_path / "tuned"),
        "sft.batch_size": 10,
        "optimizer.learning_rate": 1e-2,
    }


def test_fine_tuning_learns_the_pairs_and_when_to_stop(own, sft):
    losses = []
    folder = fine_tune_model(resolve(sft, kind=SFTConfig)[0], lambda step, loss: losses.append(loss))
    assert len(losses) == 300
    assert losses[-1] < 0.1 * losses[0]
    assert AutoModelForCausalLM.from_pretrained(folder) is not None
    config = resolve({**own, "model.path": str(folder), "reward": "exact-match"})[0]
    assert evaluate_model(config)["eval/greedy"] == 1.0
    greedy = sample_replies(config, ["1+2=", "4+4="], replies=3)
    assert [r.prompt.text for r in greedy] == ["1+2="] * 3 + ["4+4="] * 3
    assert sum(r.text == str(eval(r.prompt.text[:-1])) for r in greedy) >= 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.completion_column": "reply"}, "no column 'reply'"),
        ({"data.path": "careless-adder"}, "world's own model only"),
        ({"data.held_out": 2}, r"taut sft takes no data\.held_out"),
    ],
)
def test_mistakes_in_fine_tuning_are_named(sft, changes, message):
    with pytest.raises(ValueError, match=message):
        fine_tune_model(resolve({**sft, **changes}, kind=SFTConfig)[0])


def test_an_output_that_exists_is_never_written_into(sft, tmp_path):
    (tmp_path / "tuned").mkdir()
    with pytest.raises(ValueError, match="tuned exists"):
        fine_tune_model(resolve(sft, kind=SFTConfig)[0])


def test_a_run_is_used_from_its_newest_checkpoint(own):
    run = train(resolve(own)[0])
    config = config_of_run(run)
    assert config.model.path.endswith("step_000002")
    assert evaluate_model(config)["eval/greedy"] == run.scalars()[-1]["eval/greedy"]
    assert evaluate_model(config)["eval/accuracy"] == run.scalars()[-1]["eval/accuracy"]


def test_prompts_default_to_the_held_out_ones(own):
    rollouts = sample_replies(resolve(own)[0], None, replies=2)
    assert [r.prompt.text for r in rollouts] == ["0+0=", "0+0=", "0+1=", "0+1=", "0+2=", "0+2="]


def test_evaluation_without_held_out_prompts_says_what_to_set(own):
    with pytest.raises(ValueError, match=r"data\.eval_path"):
        evaluate_model(resolve({**own, "data.eval_path": None})[0])
