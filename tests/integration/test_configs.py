"""Configs for machines that are not here, run with a stand-in: all of their settings but model, data and size."""

import json
import math
import string
from pathlib import Path

import pytest

from taut.config import check, read_yaml, resolve
from taut.launch.local import train
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2

CONFIGS = Path(__file__).parents[2] / "configs"
CHARACTERS = string.printable
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}={% endif %}"


@pytest.fixture
def stand_in(tmp_path):
    """A random model that reads any text in ASCII, and six questions in GSM8K's format."""
    tokenizer = character_tokenizer(CHARACTERS, "\x0b")
    tokenizer.chat_template = TEMPLATE
    model = tiny_gpt2(len(CHARACTERS), CHARACTERS.index("\x0b"), seed=0, width=16, heads=2)
    save_model(model, tokenizer, tmp_path / "model")
    for name in ("train", "test"):
        rows = [
            {"question": f"{n} eggs and 2 more?", "answer": f"{n}+2=<<{n}+2={n + 2}>>{n + 2}\n#### {n + 2}"}
            for n in range(6)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {
        "run.root": str(tmp_path / "runs"),
        "run.steps": 2,
        "run.device": "cpu",
        "run.threads": 1,
        "model.path": str(tmp_path / "model"),
        "data.path": str(tmp_path / "train.jsonl"),
        "data.eval_path": str(tmp_path / "test.jsonl"),
        "sampling.max_new_tokens": 6,
        "algorithm.prompts_per_step": 4,
    }


def test_gsm8k_trains_with_a_stand_in(stand_in):
    settings = read_yaml(CONFIGS / "qwen2.5-0.5b-gsm8k.yaml")
    whole, _ = resolve(settings)
    check(whole)
    assert whole.run.steps * whole.algorithm.prompts_per_step // 7473 == 14, "the fifteenth pass is the last"
    run = train(resolve(settings, stand_in)[0])
    first, second = run.scalars()[1:]
    for row in (first, second):
        assert all(math.isfinite(value) for value in row.values())
    assert first["update/steps"] == 4
    assert first["reward/mean"] in (0, 0.25, 0.5, 0.75, 1)
    assert "eval/accuracy" in second
    assert run.replies(1)[0].prompt_text.startswith(tuple("012345"))


def test_smollm2_addition_resolves():
    config, _ = resolve(read_yaml(CONFIGS / "smollm2-addition.yaml"))
    check(config)
    rows = [
        [json.loads(line) for line in (CONFIGS.parent / path).read_text().splitlines()]
        for path in (config.data.path, config.data.eval_path)
    ]
    sums = [{row["prompt"].splitlines()[-1] for row in part} for part in rows]
    shown = {line.split("=")[0] + "=" for line in rows[0][0]["prompt"].splitlines()[:-1]}
    assert [len(part) for part in sums] == [67, 30]
    assert not sums[0] & sums[1]
    assert not shown & (sums[0] | sums[1])
