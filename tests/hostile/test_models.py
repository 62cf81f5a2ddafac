"""Model folders that are damaged, mixed up, or not what they are given for."""

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from taut.cli import DONE, main

WEIGHTS = "model/model.safetensors"


def config_with(**values):
    def damage():
        with open("model/config.json") as file:
            config = {**json.load(file), **values}
        with open("model/config.json", "w") as file:
            json.dump(config, file)

    return damage


def written(path, content):
    def damage():
        with open(path, "wb") as file:
            file.write(content)

    return damage


def cut(path, left):
    def damage():
        with open(path, "r+b") as file:
            file.truncate(int(left * os.path.getsize(path)))

    return damage


def weights_with(change):
    def damage():
        weights = load_file(WEIGHTS)
        change(weights)
        save_file(weights, WEIGHTS, metadata={"format": "pt"})

    return damage


def as_pickle():
    torch.save(load_file(WEIGHTS), "model/pytorch_model.bin")
    os.remove(WEIGHTS)


def as_hostile_pickle():
    class Payload:
        def __reduce__(self):
            return os.mkdir, ("pwned",)

    torch.save({"transformer.wte.weight": Payload()}, "model/pytorch_model.bin")
    os.remove(WEIGHTS)


def with_code_of_its_own():
    config_with(auto_map={"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}, model_type="own")()
    with open("model/own.py", "w") as file:
        file.write("import os\nos.mkdir('pwned')\n")


def larger_vocabulary():
    with open("model/tokenizer.json") as file:
        tokenizer = json.load(file)
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary.update({letter: len(vocabulary) + place for place, letter in enumerate("abcdefgh")})
    with open("model/tokenizer.json", "w") as file:
        json.dump(tokenizer, file)


ROWS = {
    # what is done to it, the thing, the fix
    "no folder": (lambda: shutil.rmtree("model"), "model.path model", "no such folder"),
    "a file": (lambda: (shutil.rmtree("model"), written("model", b"")()), "model.path model is a file", "folder"),
    "an empty folder": (lambda: (shutil.rmtree("model"), os.mkdir("model")), "model.path model", "config.json"),
    "weights cut in half": (cut(WEIGHTS, 0.5), "model.path model", "copy them again"),
    "weights cut in the header": (cut(WEIGHTS, 0.01), "model.path model", "copy them again"),
    "weights of no bytes": (written(WEIGHTS, b""), "model.path model", "copy them again"),
    "a pointer for weights": (
        written(WEIGHTS, b"version https://git-lfs.github.com/spec/v1\n"), "model.path model", "copy them again"),
    "weights that are json": (written(WEIGHTS, b"{}" * 100), "model.path model", "copy them again"),
    "no weights": (lambda: os.remove(WEIGHTS), "model.path model", "no file named model.safetensors|weights"),
    "a weight missing": (
        weights_with(lambda w: w.pop("transformer.h.0.mlp.c_fc.weight")), "model.path model", "mlp.c_fc.weight"),
    "a weight of another shape": (
        weights_with(lambda w: w.update({"transformer.ln_f.weight": torch.ones(3)})), "model.path model", "shape"),
    "nan among the weights": (
        weights_with(lambda w: w["transformer.ln_f.weight"].fill_(torch.nan)), "ln_f.weight holds NaN", "from before"),
    "pickled weights": (as_pickle, "pytorch_model.bin", "safetensors"),
    "a hostile pickle": (as_hostile_pickle, "pytorch_model.bin", "safetensors"),
    "code of its own": (with_code_of_its_own, "model.path model", "trust_remote_code"),
    "a config that is cut": (cut("model/config.json", 0.5), "model.path model", "JSON|config"),
    "a config that is empty": (written("model/config.json", b""), "model.path model", "JSON|config"),
    "a config that is a list": (written("model/config.json", b"[1]"), "model.path model", "config"),
    "a config of nothing": (written("model/config.json", b"{}"), "model.path model", "model_type"),
    "a config that is binary": (written("model/config.json", b"\xff\xfe\x00"), "model.path model", "config|JSON|UTF"),
    "a family that is none": (config_with(model_type="gpt99"), "model.path model", "gpt99"),
    "a classifier": (config_with(architectures=["GPT2ForSequenceClassification"]), "model.path model", "model:model"),
    "layers that are a text": (config_with(n_layer="two"), "model.path model", "n_layer|int"),
    "no layers": (config_with(n_layer=0), "model.path model", "num_hidden_layers = 0, and a model has at least 1"),
    "a width below 0": (config_with(n_embd=-4), "model.path model", "hidden_size = -4, and a model has at least 1"),
    "more layers than weights": (config_with(n_layer=9), "model.path model", "lacks"),
    "heads that do not divide": (config_with(n_head=3), "model.path model", "n_head|num_heads|divisible"),
    "a vocabulary larger than the weights": (config_with(vocab_size=10**4), "model.path model", "shape"),
    "a width larger than the weights": (config_with(n_embd=32), "model.path model", "shape"),
    "no tokenizer": (lambda: os.remove("model/tokenizer.json"), "tokenizer.*model.path model", "tokenizer"),
    "a tokenizer that is cut": (cut("model/tokenizer.json", 0.5), "tokenizer.*model.path model", "tokenizer"),
    "a tokenizer that is empty": (written("model/tokenizer.json", b""), "tokenizer.*model.path model", "tokenizer"),
    "a tokenizer of nothing": (written("model/tokenizer.json", b"{}"), "tokenizer.*model.path model", "tokenizer"),
    "a tokenizer of another model": (larger_vocabulary, "tokenizer at model.path model", "the model.s own"),
    "a tokenizer's config that is cut": (cut("model/tokenizer_config.json", 0.5), "model.path model", "tokenizer"),
    "a template that is none": (written("model/chat_template.jinja", b"{% for %}"), "row 1|chat template", "template"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "thing", "fix"), ROWS.values(), ids=ROWS)
def test_a_bad_model_is_refused(refused, place, monkeypatch, damage, thing, fix):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    damage()
    settings = ["--data.as_chat", "true"] if "template" in thing else []
    refused(["train", "settings.yaml", *settings], thing, fix)
    assert not (place / "pwned").exists()


def test_pickled_weights_load_where_that_is_asked_for(place):
    as_pickle()
    assert main(["train", "settings.yaml", "--model.trust_remote_code", "true", "--quiet"]) == DONE


def test_a_hostile_pickle_runs_nothing_even_then(refused, place):
    as_hostile_pickle()
    refused(
        ["train", "settings.yaml", "--model.trust_remote_code", "true"],
        "model.path model",
        "Weights only load failed",
    )
    assert not (place / "pwned").exists()
