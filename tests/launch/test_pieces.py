"""Token texts without torch: by the newest tokenizer there is, of three kinds made here, else the ids."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from taut.config import WORLD
from taut.launch.pieces import token_pieces
from taut.store import Run, RunWriter
from taut.tasks.adder import CHARACTERS, END


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[[object], Run]:
    def make(model: object) -> Run:
        RunWriter.create(tmp_path / "run", json.dumps({"model": {"path": str(model)}}), {}).close()
        return Run.open(tmp_path / "run")

    return make


@pytest.fixture
def run(make_run: Callable[[object], Run], tmp_path: Path) -> Run:
    return make_run(tmp_path / "model")


def texts(run: Run, count: int) -> list[str]:
    return [token_pieces(run).text_of(token) for token in range(count)]


def save(tokenizer: Tokenizer, folder: Path) -> None:
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))


def byte_level() -> Tokenizer:
    # "é" is the bytes c3 a9, written as "Ã" and "©" in the alphabet of bytes; a space is "Ġ", a line break "Ċ".
    vocabulary = {"Ã": 0, "©": 1, "Ġcaf": 2, "Ċ": 3, "Ã©": 4}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    tokenizer.add_tokens([AddedToken("Ġas it is", special=False)])
    return tokenizer


def test_the_world_needs_no_file(make_run: Callable[[object], Run]) -> None:
    run = make_run(WORLD)
    assert "".join(texts(run, len(CHARACTERS))) == CHARACTERS
    assert token_pieces(run).text_of(99) == "⟨#99⟩"
    assert token_pieces(run).special == {CHARACTERS.index(END)}


def test_bytes_that_are_no_character_are_shown_as_bytes(run: Run) -> None:
    save(byte_level(), run.directory / "checkpoints" / "step_000002")
    shown = ["⟨c3⟩", "⟨a9⟩", " caf", "\n", "é", "<|end|>", "Ġas it is", "⟨#7⟩"]
    assert texts(run, 8) == shown
    assert token_pieces(run).special == {5}


def test_sentencepiece_keeps_its_leading_spaces(run: Run) -> None:
    tokenizer = Tokenizer(models.BPE({"▁the": 0, "<0xE2>": 1, "<0x41>": 2, "re": 3}, [], byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    save(tokenizer, run.directory / "checkpoints" / "step_000001")
    assert texts(run, 4) == [" the", "⟨e2⟩", "A", "re"]


def test_the_newest_tokenizer_that_can_be_read_is_taken(run: Run, tmp_path: Path) -> None:
    def words(word: str) -> Tokenizer:
        return Tokenizer(models.WordLevel({word: 0}, unk_token=word))

    assert texts(run, 1) == ["⟨#0⟩"]
    save(words("model"), tmp_path / "model")
    assert texts(run, 1) == ["model"]
    save(words("ninth"), run.directory / "checkpoints" / "step_000009")
    save(words("tenth"), run.directory / "checkpoints" / "step_000010")
    assert texts(run, 1) == ["tenth"]
    (run.directory / "checkpoints" / "step_000010" / "tokenizer.json").write_text("{")
    (run.directory / "checkpoints" / "step_000011").mkdir()
    assert texts(run, 1) == ["ninth"]


@pytest.mark.parametrize("text", [None, "model: x", "model: {path: [1]}", "- 1", "model: ["])
def test_without_settings_tokens_are_bare_ids(run: Run, text: str | None) -> None:
    file = run.directory / "config.yaml"
    if text is None:
        file.unlink()
    else:
        file.write_text(text, encoding="utf-8")
    assert token_pieces(run).text_of(7) == "⟨#7⟩"


def test_a_checkpoint_s_tokenizer_is_read_without_settings(run: Run) -> None:
    save(byte_level(), run.directory / "checkpoints" / "step_000002")
    (run.directory / "config.yaml").unlink()
    assert token_pieces(run).text_of(2) == " caf"


def test_a_byte_level_token_is_read_as_transformers_reads_it_but_for_halves_of_characters(
    run: Run, tmp_path: Path
) -> None:
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer, learned.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<end>"])
    learned.train_from_iterator(["what is 17 × 6? 漢字 漢字"] * 4, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learned, eos_token="<end>", clean_up_tokenization_spaces=False
    )
    tokenizer.save_pretrained(tmp_path / "model")
    ours = texts(run, len(tokenizer))
    theirs = [tokenizer.decode([token]) for token in range(len(tokenizer))]
    assert {"<end>", "\ufffd", " what"} <= set(theirs)
    halves = {token for token, text in enumerate(theirs) if "\ufffd" in text}
    for token, text in enumerate(theirs):
        assert ours[token].startswith("⟨") if token in halves else ours[token] == text


def test_neither_torch_nor_transformers_is_waited_for() -> None:
    code = "import sys, taut.launch.pieces; print({'torch', 'transformers'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"
