"""Token texts without torch: by the newest tokenizer there is, else the ids."""

import json
import subprocess
import sys

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from taut.config import WORLD
from taut.launch.pieces import token_pieces
from taut.models.tiny import character_tokenizer
from taut.store import Run, RunWriter
from taut.tasks.adder import CHARACTERS


@pytest.fixture
def make_run(tmp_path):
    def make(model):
        with RunWriter.create(tmp_path / "run", json.dumps({"model": {"path": str(model)}}), {}):
            pass
        return Run.open(tmp_path / "run")

    return make


def test_the_world_needs_no_file(make_run):
    text_of = token_pieces(make_run(WORLD))
    assert "".join(text_of(token) for token in range(len(CHARACTERS))) == CHARACTERS
    assert text_of(99) == "99"


def test_the_newest_checkpoint_that_has_a_tokenizer_is_read(make_run, tmp_path):
    character_tokenizer("abc;", ";").save_pretrained(tmp_path / "model")
    run = make_run(tmp_path / "model")
    assert [token_pieces(run)(token) for token in (0, 1, 3)] == ["a", "b", ";"]
    character_tokenizer("xyz;", ";").save_pretrained(run.directory / "checkpoints" / "step_000002")
    (run.directory / "checkpoints" / "step_000003").mkdir()  # damaged
    assert [token_pieces(run)(token) for token in (0, 1, 3)] == ["x", "y", ";"]


def test_ids_stand_for_texts_that_are_unknown(make_run, tmp_path):
    assert token_pieces(make_run(tmp_path / "gone"))(17) == "17"


def test_a_byte_level_token_is_read_as_transformers_reads_it(make_run, tmp_path):
    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer, byte_level.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<end>"])
    byte_level.train_from_iterator(["what is 17 × 6? 漢字 漢字"] * 4, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level, eos_token="<end>", clean_up_tokenization_spaces=False
    )
    tokenizer.save_pretrained(tmp_path / "model")
    text_of = token_pieces(make_run(tmp_path / "model"))
    texts = [text_of(token) for token in range(len(tokenizer))]
    assert texts == [tokenizer.decode([token]) for token in range(len(tokenizer))]
    assert {"<end>", "\ufffd", " what"} <= set(texts)


def test_neither_torch_nor_transformers_is_waited_for():
    code = "import sys, taut.launch.pieces; print({'torch', 'transformers'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"
