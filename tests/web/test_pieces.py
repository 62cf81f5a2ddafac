"""Texts of single tokens, by tokenizers of three kinds, made here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from taut.store import Run, RunWriter
from taut.web.pieces import pieces_of


@pytest.fixture
def run(tmp_path: Path) -> Run:
    RunWriter.create(tmp_path / "run", f"model: {{path: {tmp_path / 'model'}}}\n", {}).close()
    return Run.open(tmp_path / "run")


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


def test_bytes_that_are_no_character_are_shown_as_bytes(run: Run) -> None:
    save(byte_level(), run.directory / "checkpoints" / "step_000002")
    pieces = pieces_of(run, [0, 1, 2, 3, 4, 5, 6, 77])
    assert pieces.texts == {
        0: "⟨c3⟩",
        1: "⟨a9⟩",
        2: " caf",
        3: "\n",
        4: "é",
        5: "<|end|>",
        6: "Ġas it is",
        77: "⟨#77⟩",
    }
    assert pieces.special == [5]


def test_sentencepiece_keeps_its_leading_spaces(run: Run) -> None:
    tokenizer = Tokenizer(models.BPE({"▁the": 0, "<0xE2>": 1, "<0x41>": 2, "re": 3}, [], byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    save(tokenizer, run.directory / "checkpoints" / "step_000001")
    assert pieces_of(run, range(4)).texts == {0: " the", 1: "⟨e2⟩", 2: "A", 3: "re"}


def test_the_newest_tokenizer_that_can_be_read_is_taken(run: Run, tmp_path: Path) -> None:
    def words(word: str) -> Tokenizer:
        return Tokenizer(models.WordLevel({word: 0}, unk_token=word))

    assert pieces_of(run, [0]).texts == {0: "⟨#0⟩"}
    save(words("model"), tmp_path / "model")
    assert pieces_of(run, [0]).texts == {0: "model"}
    save(words("ninth"), run.directory / "checkpoints" / "step_000009")
    save(words("tenth"), run.directory / "checkpoints" / "step_000010")
    assert pieces_of(run, [0]).texts == {0: "tenth"}
    (run.directory / "checkpoints" / "step_000010" / "tokenizer.json").write_text("{")
    assert pieces_of(run, [0]).texts == {0: "ninth"}


@pytest.mark.parametrize("text", [None, "model: x", "model: {path: [1]}", "- 1", "model: ["])
def test_without_settings_tokens_are_bare_ids(run: Run, text: str | None) -> None:
    file = run.directory / "config.yaml"
    if text is None:
        file.unlink()
    else:
        file.write_text(text, encoding="utf-8")
    assert pieces_of(run, [7]).texts == {7: "⟨#7⟩"}


def test_a_checkpoint_s_tokenizer_is_read_without_settings(run: Run) -> None:
    save(byte_level(), run.directory / "checkpoints" / "step_000002")
    (run.directory / "config.yaml").unlink()
    assert pieces_of(run, [2]).texts == {2: " caf"}
