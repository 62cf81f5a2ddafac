"""The model folders that both sides load, made once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from peers.work import GRPO, Work, prompts_of
from taut.models.load import load_model, load_tokenizer
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.tasks.adder import CHARACTERS, END

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / ".models"
SMOLLM2 = MODELS / "smollm2-135m-instruct"
SHAPE = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
"""SmolLM2-135M's."""
WEIGHTS = {
    "world": "random, 2 layers of width 64, 13 tokens",
    "tiny": "random, 1 layer of width 16, 13 tokens",
    "smollm2": "SmolLM2-135M-Instruct",
    "smollm2-random": "random, of SmolLM2-135M's shape (scripts/fetch_smollm2.sh was not run)",
}


def model_for(work: Work, folder: Path = MODELS) -> tuple[Path, str]:
    """The folder of the work's model, made where it is missing, and in words whose weights those are."""
    kind = work.model
    if kind == "smollm2" and not list(SMOLLM2.glob("*.gguf")):
        kind = "smollm2-random"
    place = folder / f"bench-{kind}"
    if not place.exists():
        beside = place.with_name(place.name + ".writing")
        shutil.rmtree(beside, ignore_errors=True)
        save_model(*_made(kind), beside)
        beside.rename(place)
    return place, WEIGHTS[kind]


def _made(kind: str) -> tuple[Any, PreTrainedTokenizerFast]:
    if kind == "smollm2":
        (gguf,) = SMOLLM2.glob("*.gguf")
        return load_model(str(SMOLLM2), gguf.name), load_tokenizer(str(SMOLLM2), gguf.name)
    if kind == "smollm2-random":
        return LlamaForCausalLM(LlamaConfig(**SHAPE)), word_tokenizer()
    layers, width = (2, 64) if kind == "world" else (1, 16)
    end = CHARACTERS.index(END)
    model = tiny_gpt2(len(CHARACTERS), end, seed=0, layers=layers, width=width)
    return model, character_tokenizer(CHARACTERS, END)


def word_tokenizer() -> PreTrainedTokenizerFast:
    """A word, a space or a mark a token: those of the prompts first, then names for the ids that remain."""
    texts = [p if isinstance(p, str) else p[0]["content"] for work in GRPO for p in prompts_of(work)]
    split = pre_tokenizers.Split(Regex(r"\w+|\W"), behavior="isolated")
    seen = sorted({piece for text in texts for piece, _ in split.pre_tokenize_str(text)})
    words = ["<|end|>", "<|user|>", "<|assistant|>", *seen]
    words += [f"w{number}" for number in range(SHAPE["vocab_size"] - len(words))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<|end|>"))
    tokenizer.pre_tokenizer = split
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=["<|user|>", "<|assistant|>"],
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = (
        "{% for message in messages %}<|user|>{{ message.content }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    return made
