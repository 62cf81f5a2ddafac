"""Real models in a run: adapters, compute types, recomputed layers, critics that are kept."""

from __future__ import annotations

import json
import math
from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForCausalLM

from taut.config import DPOConfig, RewardModelConfig, SFTConfig, resolve
from taut.launch import models
from taut.launch.data import tokenizer_for
from taut.launch.local import train
from taut.launch.preferences import train_dpo, train_reward_model
from taut.launch.sft import fine_tune_model
from taut.launch.use import config_of_run, evaluate_model
from taut.models import adapter, load
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer
from taut.tasks.adder import CHARACTERS, END


@pytest.fixture(params=["GPT2", "Llama"])
def real(own, request, make_model, tmp_path):
    """The settings of `own` with a model of a real family."""
    model = make_model(request.param, vocab_size=len(CHARACTERS), eos_token_id=12)
    path = tmp_path / request.param
    save_model(model, character_tokenizer(CHARACTERS, END), path)
    (tmp_path / "varied.py").write_text(
        "def score(prompts, completions, **columns):\n    return [sum(map(ord, c)) % 7.0 for c in completions]\n"
    )
    return {
        **own,
        "model.path": str(path),
        "reward": f"{tmp_path / 'varied.py'}:score",
        "algorithm.preset": "ppo",
    }


def run_with(settings, **changes):
    return train(resolve({**settings, **{k.replace("__", "."): v for k, v in changes.items()}})[0])


def is_sound(run):
    rows = run.scalars()
    assert run.status == "finished"
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert rows[1]["clip/epoch_1"] == 0
    assert rows[1]["kl/ref_k1"] == 0, "before the first update the policy is its reference"
    assert rows[2]["kl/ref_k1"] != 0
    return run.directory / "checkpoints" / "step_000002"


@pytest.mark.parametrize("shared", [False, True])
def test_lora_trains_end_to_end_with_a_critic_of_its_own_or_shared(real, shared):
    run = run_with(real, lora__rank=4, critic__shared=shared, critic__learning_rate=1e-3)
    folder = is_sound(run)
    assert run.scalars()[1]["mismatch/max"] < 1e-4
    assert (folder / "adapters" / "policy" / "adapter_model.safetensors").is_file()
    assert (folder / "critic" / "adapters" / "critic").is_dir() == shared
    base = AutoModelForCausalLM.from_pretrained(real["model.path"]).state_dict()
    merged = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    assert base.keys() == merged.keys()
    assert any(not torch.equal(base[name], merged[name]) for name in base)
    pickles = [path.relative_to(folder).as_posix() for path in folder.rglob("*.pt")]
    assert pickles == ["training/learner.pt"], "tensors alone, read without unpickling objects"
    greedy = evaluate_model(config_of_run(run))["eval/greedy"]
    assert greedy == pytest.approx(run.scalars()[2]["eval/greedy"])


def test_a_saved_critic_is_loaded_back_with_its_head(real, tmp_path):
    settings = {**real, "critic.normalize_values": True, "critic.learning_rate": 1e-2}
    folder = is_sound(run_with(settings, run__name="first")) / "critic"
    assert AutoModel.from_pretrained(folder).config.model_type in ("gpt2", "llama")
    config = resolve({**settings, "critic.path": str(folder)})[0]
    critic = models.critic_from(config)
    head = load_file(folder / "value_head.safetensors")
    assert torch.equal(critic.head.weight, head["weight"])
    assert head["weight"].abs().max() > 0
    second = run_with(settings, run__name="second", critic__path=str(folder))
    assert second.replies(1)[0].values.any(), "a critic that starts from nothing says 0"


SMALL_STEPS = {
    ("bfloat16-weights", 0): {"the policy and the critic"},
    ("bfloat16-weights", 4): {"the critic"},
}


@pytest.mark.parametrize("dtype", ["bfloat16", "bfloat16-weights"])
@pytest.mark.parametrize("rank", [0, 4])
def test_bfloat16_trains(real, dtype, rank):
    changes = {"model__dtype": dtype, "lora__rank": rank, "model__gradient_checkpointing": True}
    run = run_with(real, optimizer__learning_rate=1e-2, **changes)
    folder = is_sound(run)
    warned = {
        event["message"].partition(" will be trained in")[0]
        for event in run.events()
        if event["name"] == "dtype"
    }
    assert warned == SMALL_STEPS.get((dtype, rank), set())
    saved = load_file(folder / "model.safetensors")
    expected = torch.bfloat16 if dtype == "bfloat16-weights" else torch.float32
    assert {tensor.dtype for tensor in saved.values()} == {expected}


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="needs bitsandbytes: pip install 'taut[qlora]'")
def test_a_base_in_four_bits_trains_an_adapter_and_a_critic_on_it(real):
    settings = {"model.dtype": "nf4", "lora.rank": 4, "critic.shared": True, "critic.learning_rate": 1e-3}
    if "GPT2" in real["model.path"]:
        with pytest.raises(ValueError, match="transposed matrices of GPT2LMHeadModel"):
            run_with({**real, **settings})
        return
    folder = is_sound(run_with({**real, **settings}, optimizer__learning_rate=1e-2))
    assert AutoModelForCausalLM.from_pretrained(folder).dtype == torch.bfloat16
    assert AutoModel.from_pretrained(folder / "critic").dtype == torch.bfloat16


def test_recomputed_layers_give_the_same_run(real):
    runs = [
        run_with(real, run__name=f"recompute-{on}", model__gradient_checkpointing=on) for on in (False, True)
    ]
    for name in ("clip/binding", "kl/ref_k1", "value/loss", "reward/mean"):
        a, b = (run.scalars()[2][name] for run in runs)
        assert a == pytest.approx(b, rel=1e-4), name


def test_an_attention_implementation_is_used(real, monkeypatch):
    config = resolve({**real, "model.attention": "eager"})[0]
    policy = models.policy_from(config.model.path, config.model)
    assert policy.model.config._attn_implementation == "eager"


def test_an_attention_that_is_not_installed_is_an_error_that_names_it(real):
    config = resolve({**real, "model.attention": "flash_attention_2"})[0]
    with pytest.raises(ValueError, match=r"(?i)flash.?attention"):
        models.policy_from(config.model.path, config.model)


def test_code_that_comes_with_a_model_is_not_run_unless_asked(real, monkeypatch):
    seen = []
    for name in ("AutoModelForCausalLM", "AutoTokenizer", "AutoModel"):
        real_class = getattr(load, name)

        class Recording:
            @staticmethod
            def from_pretrained(*args, trust_remote_code, real_class=real_class, **kwargs):
                seen.append(trust_remote_code)
                return real_class.from_pretrained(*args, **kwargs)

        monkeypatch.setattr(load, name, Recording)
    for trusted in (False, True):
        config = resolve({**real, "model.trust_remote_code": trusted, "critic.path": real["model.path"]})[0]
        tokenizer_for(config.model)
        models.policy_from(config.model.path, config.model)
        models.critic_from(config)
    assert seen == [False] * 3 + [True] * 3


def test_a_missing_peft_is_told_before_weights_load(own, monkeypatch):
    monkeypatch.setattr(adapter, "find_spec", lambda name: None)
    monkeypatch.setattr(models, "load_model", lambda *_: pytest.fail("weights were loaded"))
    with pytest.raises(ImportError, match=r"pip install 'taut\[lora\]'"):
        run_with(own, lora__rank=4)


def test_a_reward_model_in_4_bits_is_refused_before_weights_load(real, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "load_model", lambda *_: pytest.fail("weights were loaded"))
    settings = {"model.path": real["model.path"], "model.dtype": "nf4", "lora.rank": 2}
    with pytest.raises(ValueError, match=r"model\.dtype = nf4 packs the weights.*set it to bfloat16-weights"):
        train_reward_model(resolve(settings, kind=RewardModelConfig)[0])


def test_what_is_longer_than_the_model_is_told_before_weights_load(real, tmp_path, monkeypatch):
    pair = {"prompt": "1+1=", "completion": "1" * 60, "chosen": "1" * 60, "rejected": "2"}
    short = {"prompt": "1+1=", "completion": "1" * 59, "chosen": "1" * 59, "rejected": "2"}
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, [short, pair])))
    monkeypatch.setattr(models, "load_model", lambda *_: pytest.fail("weights were loaded"))
    for kind, learn in (
        (SFTConfig, fine_tune_model),
        (RewardModelConfig, train_reward_model),
        (DPOConfig, train_dpo),
    ):
        settings = {"model.path": real["model.path"], "data.path": str(tmp_path / "pairs.jsonl")}
        with pytest.raises(
            ValueError, match=r"have 65 tokens, and the model takes 64: .* remove 1 of 2 rows"
        ):
            learn(resolve(settings, kind=kind)[0])


def test_fine_tuning_with_lora_saves_a_merged_model(real, tmp_path):
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "1+1=", "completion": "2"}\n')
    settings = {
        "run.steps": 3,
        "run.threads": 1,
        "model.path": real["model.path"],
        "data.path": str(tmp_path / "pairs.jsonl"),
        "sft.output": str(tmp_path / "tuned"),
        "sft.batch_size": 2,
        "optimizer.learning_rate": 1e-2,
        "lora.rank": 2,
    }
    folder = fine_tune_model(resolve(settings, kind=SFTConfig)[0])
    before = AutoModelForCausalLM.from_pretrained(real["model.path"]).state_dict()
    after = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nonexistent", r"critic\.path /nonexistent: there is no such folder"),
        ("FOLDER", r"critic\.path .*/empty is not a model folder: it holds no config\.json"),
        ("BROKEN", r"no model's config could be loaded from critic\.path .*/broken"),
    ],
)
def test_a_critic_path_without_a_model_is_told_by_its_name_before_weights_load(
    own, path, message, tmp_path, monkeypatch
):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    path = {"FOLDER": str(tmp_path / "empty"), "BROKEN": str(tmp_path / "broken")}.get(path, path)
    monkeypatch.setattr(models, "load_model", lambda *_: pytest.fail("weights were loaded"))
    with pytest.raises(ValueError, match=message):
        run_with(own, algorithm__preset="ppo", critic__path=path)


def test_a_critic_that_cannot_read_what_the_policy_reads_is_refused(own, make_model, tmp_path):
    make_model("GPT2", n_positions=8).save_pretrained(tmp_path / "short")
    with pytest.raises(ValueError, match=r"critic\.path has 8 positions and the policy 64"):
        train(resolve({**own, "algorithm.preset": "ppo", "critic.path": str(tmp_path / "short")})[0])
