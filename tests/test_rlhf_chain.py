"""The example of the RLHF chain: its parts, at a small size."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

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
    folder = tmp_path / "reward-model"
    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(folder),
        AutoTokenizer.from_pretrained(folder),
    )
    alone = [
        model(**tokenizer(text, return_tensors="pt")).logits.item() for text in ("12+34=46;", "12+34=123")
    ]
    together = chain.reward_model(tmp_path)(["12+34="] * 2, ["46", "123"], [[4, 6, 12], [1, 2, 3]])
    assert together == pytest.approx(alone, rel=1e-4)

    row = chain.optimize(tmp_path, seed=100, beta=0.0, steps=3)
    assert row["kl"] > 0
    assert 0 <= row["true_accuracy"] <= 1


def test_its_claims_can_fail(chain):
    def rows(*points):
        return [{"beta": b, "kl": 0.0, "proxy_reward": p, "true_accuracy": t} for b, p, t in points]

    over = chain.make_claims(rows((None, 0.0, 0.3), (1.0, 0.5, 0.6), (0.0, 2.0, 0.1)))
    assert [claim["holds"] for claim in over] == [True, True, True]
    flat = chain.make_claims(rows((None, 0.0, 0.3), (1.0, -0.1, 0.3), (0.0, 2.0, 0.3)))
    assert [claim["holds"] for claim in flat] == [False, False, False]
