"""From layers of settings to one config."""

from __future__ import annotations

from pathlib import Path

import pytest

from taut.config import (
    PRESETS,
    Config,
    SFTConfig,
    check,
    parse_flags,
    parse_value,
    read_yaml,
    resolve,
    to_yaml,
)
from taut.config.presets import ALIASES
from taut.config.schema import AlgorithmConfig

CONFIGS = sorted(Path(__file__).parents[2].glob("configs/**/*.yaml"))
OWN_MODEL = {"model.path": "some/model"}


def config(*layers) -> Config:
    return resolve(*layers)[0]


def test_flags_win_over_the_file_over_the_preset_over_the_world_over_the_defaults():
    file = {"algorithm": {"preset": "dapo", "epochs": 2, "clip_low": 0.1}, "run": {"steps": 7}}
    flags = {"algorithm.epochs": 9}
    c = config(file, flags)
    assert c.algorithm.epochs == 9  # flags, over the file's 2
    assert c.algorithm.clip_low == 0.1  # the file, over the preset's
    assert c.run.steps == 7  # the file, over the world's 40
    assert c.algorithm.clip_high == 0.28  # the preset, over the default 0.2
    assert c.optimizer.learning_rate == 1e-3  # the world, over the default 1e-6
    assert c.algorithm.gamma == 1.0  # the default


def test_a_preset_wins_over_the_world(monkeypatch):
    monkeypatch.setitem(PRESETS, "rloo", {"optimizer.reset": "never", "sampling.max_new_tokens": 4})
    c = config({"algorithm.preset": "rloo"})
    assert (c.optimizer.reset, c.sampling.max_new_tokens) == ("never", 4)
    assert config().optimizer.reset == "batch"


def test_the_world_by_default():
    c = config()
    assert (c.model.path, c.data.path) == ("careless-adder", "careless-adder")
    assert (c.run.steps, c.run.threads, c.sampling.max_new_tokens) == (40, 1, 5)
    assert (c.algorithm.preset, c.algorithm.advantage) == ("ppo-batch-mean", "batch-mean")
    assert (c.algorithm.prompts_per_step, c.algorithm.replies_per_prompt) == (8, 8)
    assert (c.optimizer.learning_rate, c.optimizer.max_grad_norm, c.optimizer.reset) == (1e-3, None, "batch")
    assert c.kl.placement == "none"


def test_a_model_of_ones_own_gets_ppo_and_none_of_the_world():
    c = config(OWN_MODEL)
    assert (c.algorithm.preset, c.algorithm.advantage) == ("ppo", "gae")
    assert (c.kl.placement, c.kl.coefficient) == ("reward", 0.05)
    assert (c.optimizer.learning_rate, c.optimizer.max_grad_norm, c.optimizer.reset) == (1e-6, 1.0, "never")
    assert (c.run.steps, c.run.threads, c.sampling.max_new_tokens) == (100, None, 256)


def test_fine_tuning_the_world_and_a_model_of_ones_own():
    world, own = resolve(kind=SFTConfig)[0], resolve(OWN_MODEL, kind=SFTConfig)[0]
    assert (world.run.steps, world.sft.batch_size, world.optimizer.learning_rate) == (1000, 32, 2e-3)
    assert (world.optimizer.weight_decay, world.optimizer.warmup_steps) == (0.01, 20)
    assert (own.run.steps, own.optimizer.learning_rate, own.optimizer.weight_decay) == (100, 2e-5, 0.0)


def test_a_config_made_of_sections_is_filled_in_too():
    c = Config(algorithm=AlgorithmConfig(preset="grpo", epochs=2))
    assert (c.algorithm.advantage, c.algorithm.epochs) == ("group-standardized", 2)
    assert c == config({"algorithm.preset": "grpo", "algorithm.epochs": 2})


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("ppo", ("gae", "clipped", "token", "token", "reward")),
        ("ppo-batch-mean", ("batch-mean", "clipped", "token", "token", "none")),
        ("grpo", ("group-standardized", "clipped", "token", "sequence", "loss")),
        ("rloo", ("leave-one-out", "clipped", "token", "token", "reward")),
        ("dr-grpo", ("group-mean", "clipped", "token", "constant", "none")),
        ("dapo", ("group-standardized", "clipped", "token", "token", "none")),
        ("gspo", ("group-standardized", "clipped", "sequence", "sequence", "none")),
        ("cispo", ("group-standardized", "cispo", "token", "token", "none")),
        ("sapo", ("group-standardized", "sapo", "token", "sequence", "none")),
        ("dppo", ("group-standardized", "dppo", "token", "token", "none")),
        ("reinforce++", ("global-normalized", "clipped", "token", "token", "reward")),
    ],
)
@pytest.mark.parametrize("model", [{}, OWN_MODEL])
def test_each_preset_resolves_and_passes_the_checks(preset, expected, model):
    c = config(model, {"algorithm.preset": preset})
    check(c)
    a = c.algorithm
    assert (a.advantage, a.surrogate, a.ratio_level, a.loss_normalization, c.kl.placement) == expected


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"epsilon": 0.3}, {"algorithm.clip_low": 0.3, "algorithm.clip_high": 0.3}),
        ({"cliprange": 0.3}, {"algorithm.clip_low": 0.3, "algorithm.clip_high": 0.3}),
        ({"epsilon_high": 0.3}, {"algorithm.clip_high": 0.3}),
        ({"epsilon_high": 0.3, "epsilon": 0.1}, {"algorithm.clip_low": 0.1, "algorithm.clip_high": 0.3}),
        ({"num_ppo_epochs": 3}, {"algorithm.epochs": 3}),
        ({"num_iterations": 3}, {"algorithm.epochs": 3}),
        ({"num_generations": 3}, {"algorithm.replies_per_prompt": 3}),
        ({"whiten_rewards": True}, {"algorithm.whiten_rewards": True}),
        ({"missing_eos_penalty": 1.0}, {"scoring.missing_eos_penalty": 1.0}),
        ({"lam": 0.9}, {"algorithm.lam": 0.9}),
        ({"cliprange_value": 0.3}, {"critic.value_clip": 0.3}),
        ({"beta": 0.1}, {"kl.placement": "loss", "kl.estimator": "k3", "kl.coefficient": 0.1}),
        ({"kl_coef": 0.1}, {"kl.placement": "reward", "kl.estimator": "k1", "kl.coefficient": 0.1}),
        ({"beta": 0.0}, {"kl.placement": "none"}),
    ],
)
def test_trls_spellings_are_translated_with_a_note_that_names_ours(theirs, ours):
    translated, notes = resolve(OWN_MODEL, theirs)
    assert translated == config(OWN_MODEL, ours)
    assert len(notes) == len(theirs)
    assert all(f"{key} is written" in note for key, note in zip(theirs, notes, strict=True))
    written = {key: str(value).lower() if value is True else value for key, value in ours.items()}
    assert all(any(f"{key}: {value}" in note for note in notes) for key, value in written.items())


def test_every_translated_spelling_is_tested():
    mark = test_trls_spellings_are_translated_with_a_note_that_names_ours.pytestmark[0]
    assert {key for theirs, _ in mark.args[1] for key in theirs} == set(ALIASES)


def test_a_spelling_counts_wherever_it_stands_and_an_exact_name_of_ours_wins():
    assert config({"algorithm": {"epsilon": 0.3}}).algorithm.clip_low == 0.3
    c = config({"algorithm.clip_high": 0.4, "epsilon": 0.1})
    assert (c.algorithm.clip_low, c.algorithm.clip_high) == (0.1, 0.4)
    assert config({"epsilon": 0.1}, {"algorithm.clip_low": 0.3}).algorithm.clip_low == 0.3
    assert config({"algorithm.clip_low": 0.3}, {"epsilon": 0.1}).algorithm.clip_low == 0.1


@pytest.mark.parametrize("key", ["vf_coef", "algorithm.vf_coef"])
def test_vf_coef_is_refused_with_the_reason(key):
    with pytest.raises(
        ValueError, match=r"vf_coef is not a setting here: .*own optimiser.*critic\.learning_rate"
    ):
        resolve({key: 0.1})


@pytest.mark.parametrize(
    ("key", "value", "new"),
    [
        ("kl.controller", "adaptive", r"kl\.target .* null keeps it, a number"),
        ("adam_beta1", 0.9, r"optimizer\.betas, such as \[0\.9, 0\.999\]"),
        ("optimizer.adam_beta2", 0.999, r"optimizer\.betas, such as"),
        ("optimizer.beta1", 0.9, r"did you mean optimizer\.betas\?"),
        ("store.keep_every", 5, r"did you mean store\.keep_newest\?"),
    ],
)
def test_what_is_no_setting_any_more_or_half_of_one_is_told_the_new_way(key, value, new):
    with pytest.raises(ValueError, match=new):
        resolve({key: value})


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("algorithm.epoch", r"unknown key algorithm\.epoch; did you mean algorithm\.epochs\?"),
        ("kl.koefficient", r"did you mean kl\.coefficient\?"),
        ("algorithm.temperature", r"did you mean sampling\.temperature\?"),
        ("steps", r"did you mean run\.steps\?"),
        ("optimizer.lr", r"unknown key optimizer\.lr; did you mean optimizer\.learning_rate\?"),
        ("lr", r"did you mean critic\.learning_rate or optimizer\.learning_rate\?"),
        ("optimizer.lr_scheduler", r"did you mean optimizer\.schedule\?"),
        ("run.kl_coef", r"did you mean kl\.coefficient\?"),
        ("algorithm.bs", r"did you mean algorithm\.prompts_per_step\?"),
        ("learning_rate", r"did you mean critic\.learning_rate or optimizer\.learning_rate\?"),
        ("optimiser.learning_rate", r"did you mean critic\.learning_rate or optimizer\.learning_rate\?"),
        ("zzz.qqq", "unknown key zzz.qqq; see taut train --help"),
        ("algorithm", r"algorithm is a section: set keys inside it, such as algorithm\.preset"),
    ],
)
def test_an_unknown_key_names_the_nearest(key, message):
    with pytest.raises(ValueError, match=message):
        resolve({key: 1})


def test_all_unknown_keys_and_all_bad_values_are_told_at_once():
    with pytest.raises(ValueError, match=r"unknown key a; .*\nunknown key b; "):
        resolve({"a": 1, "b": 2})
    with pytest.raises(ValueError, match=r"run\.steps = 0: input should be .* 1\nalgorithm\.dual_clip = 1: "):
        resolve({"run.steps": 0, "algorithm.dual_clip": 1})
    with pytest.raises(
        ValueError, match=r"algorithm\.preset = pp0: input should be 'ppo', .* or 'reinforce\+\+'"
    ):
        resolve({"algorithm.preset": "pp0"})


@pytest.mark.parametrize("preset", PRESETS)
def test_a_saved_config_resolves_to_an_equal_one(preset, tmp_path):
    saved = config({"algorithm.preset": preset, "run.name": "007", "optimizer.learning_rate": 3e-7})
    (tmp_path / "config.yaml").write_text(to_yaml(saved), encoding="utf-8")
    assert config(read_yaml(tmp_path / "config.yaml")) == saved


def test_configs_are_found():
    assert CONFIGS, "configs/ holds complete runs"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_we_ship_resolves_and_passes_the_checks(path):
    content = read_yaml(path)
    kind = SFTConfig if "sft" in content else Config
    c, notes = resolve(content, kind=kind)
    assert notes == []
    if isinstance(c, Config):
        check(c)


@pytest.mark.parametrize(
    ("arguments", "flat"),
    [
        ([], {}),
        (["--run.steps", "3"], {"run.steps": 3}),
        (["--run.steps=3", "--run.name=a=b"], {"run.steps": 3, "run.name": "a=b"}),
        (["--algorithm.replies-per-prompt", "4"], {"algorithm.replies_per_prompt": 4}),
        (["--kl.coefficient", "-1"], {"kl.coefficient": -1}),
        (["--reward", "rewards.py:score"], {"reward": "rewards.py:score"}),
    ],
)
def test_flags(arguments, flat):
    assert parse_flags(arguments) == flat


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "unexpected argument 'train'"),
        (["--run.steps"], r"--run\.steps has no value"),
        (["--run.steps", "--run.seed", "1"], r"--run\.steps has no value"),
    ],
)
def test_flags_that_cannot_be_read_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        parse_flags(arguments)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-6", 1e-6),
        ("-2E+3", -2000.0),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("text", "text"),
        ("a: b", "a: b"),
        ("[1, 2]", [1, 2]),
        ("[a.jsonl, b]", ["a.jsonl", "b"]),
        ("[{a: 1}]", "[{a: 1}]"),
        ("2024-01-01", "2024-01-01"),
        ("{", "{"),
        ("e5", "e5"),
    ],
)
def test_a_value_is_read_as_a_scalar_or_a_list_of_them(text, value):
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.fixture
def file(tmp_path):
    def file(content: str) -> Path:
        (tmp_path / "c.yaml").write_text(content)
        return tmp_path / "c.yaml"

    return file


def test_a_file_of_comments_sets_nothing(file):
    assert read_yaml(file("# nothing yet\n")) == {}


def test_1e_minus_6_is_a_number_in_a_file(file):
    assert read_yaml(file("optimizer: {learning_rate: 1e-6}")) == {"optimizer": {"learning_rate": 1e-6}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("run: {steps: 1", r"c\.yaml is not valid YAML: .*line 1"),
        ("- run", "must map section names to keys, not hold a list"),
        ("run:\n  steps: 1\nrun:\n  seed: 1\n", "run is set twice"),
        ("run:\n  steps: 1\n  steps: 2\n", "steps is set twice, at line 3"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(file, content, message):
    with pytest.raises(ValueError, match=message):
        read_yaml(file(content))


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match=r"config file nowhere\.yaml does not exist"):
        read_yaml("nowhere.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [("010", "010"), ("1:30", "1:30"), ("0x10", "0x10"), ("12", 12), ("-3", -3), ("1e-6", 1e-6)],
)
def test_a_flag_is_read_as_yaml_1_2_reads_it(text, value):
    assert parse_flags(["--a.b", text]) == {"a.b": value}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0.1, "kl_coef": 0.2}, "beta and kl_coef place the same KL differently"),
        ({"optimizer": {"beta": 0.9}}, "unknown key optimizer.beta; did you mean optimizer.beta"),
        ({"run.seed": 2**32}, "run.seed = 4294967296"),
        ({"run.name": 1000.0}, "run.name = 1000.0"),
    ],
)
def test_what_could_be_meant_in_two_ways_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        resolve(settings)
