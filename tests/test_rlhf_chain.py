"""The example of the RLHF chain: its parts, at a small size."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from taut import Run

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def chain():
    spec = importlib.util.spec_from_file_location("chain", ROOT / "examples" / "rlhf_chain" / "chain.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["chain"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.learning
def test_from_pairs_to_a_policy(chain, world_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(chain, "PAIRS", 200)
    monkeypatch.setattr(chain, "HELD_OUT_PAIRS", 50)
    monkeypatch.setattr(chain, "MISLABELLED", 0.0)
    chain.write_pairs(tmp_path, seed=100)
    for file, count in (("pairs.jsonl", 200), ("held_out.jsonl", 50)):
        pairs = [json.loads(line) for line in (tmp_path / file).read_text().splitlines()]
        assert len(pairs) == count
        for pair in pairs:
            answer = str(eval(pair["prompt"].rstrip("=")))
            assert pair["chosen"] == answer != pair["rejected"]

    judged = chain.learn_rewards(tmp_path, seed=100)
    assert judged["train/accuracy"] > 0.7
    before = chain.start(tmp_path, seed=100)
    row = chain.optimize(tmp_path, seed=100, beta=0.0, steps=3)
    assert row["kl"] > 0
    assert row["proxy_reward"] > before["proxy_reward"]
    assert 0 <= row["true_accuracy"] <= 1

    folder = tmp_path / "reward-model"
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for reply in Run.open(tmp_path / "runs" / "beta 0.0").replies(1)[:8]:
        text = reply.prompt_text + reply.text + (";" if reply.finish_reason == "stop" else "")
        alone = model(**tokenizer(text, return_tensors="pt")).logits.item()
        assert reply.reward == pytest.approx(alone, abs=1e-4)


def test_its_claims_can_fail(chain):
    def rows(seed, *points):
        return [{"seed": seed, "beta": b, "proxy_reward": p, "true_accuracy": t} for b, p, t in points]

    over = rows(1, (None, 0.0, 0.3), (1.0, 0.5, 0.6), (0.0, 2.0, 0.1))
    flat = rows(2, (None, 0.0, 0.3), (1.0, -0.1, 0.3), (0.0, 2.0, 0.3))
    assert [claim["holds"] for claim in chain.make_claims(over)] == [True, True, True]
    both = chain.make_claims([*over, *flat])
    assert [claim["holds"] for claim in both] == [False, False, False]
    assert [claim["value"] for claim in both] == [[0.5, -0.1], [0.3, 0.0], [0.5, 0.0]]
