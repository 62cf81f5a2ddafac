"""What is unusual and legal: it works, and is shown as it is, on every console."""

import json
import os
import subprocess
import sys

import pytest

from taut.cli import DONE, WRONG_INPUT, main
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2

TEXTS = {
    "emoji": "🙂🇺🇳👩‍👩‍👧",
    "right to left": "שלום \u202eabc\u202c مرحبا",
    "control characters": "a\x1b[31mb\x07\x08\x7f\r\tc",
    "markup": "latvec[0] [/INST] [red]x[/red] [link=file:///]",
    "combining": "e\u0301\u200b\ufeff\u2028",
    "a null character": "a\0b",
}
SHOWN = "latvec[0] [/INST] [red]x[/red] [link=file:///]"


@pytest.fixture
def speaking(place):
    """The place with a model whose vocabulary is all these texts' characters, and prompts of them."""
    characters = sorted(set("".join(TEXTS.values())) | set("0123456789+="))
    tokenizer = character_tokenizer(["<end>", *characters], "<end>")
    save_model(tiny_gpt2(len(characters) + 1, 0, seed=0, width=16, heads=2), tokenizer, place / "speaker")
    rows = [{"prompt": text, "answer": text} for text in TEXTS.values()]
    (place / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = [
        "settings.yaml",
        "--model.path",
        "speaker",
        "--data.path",
        "texts.jsonl",
        "--run.name",
        "texts",
    ]
    assert main(["train", *settings, "--quiet"]) == DONE
    return place


def in_a_process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "taut.cli", *arguments],
        capture_output=True, check=False, timeout=120, stdin=subprocess.DEVNULL, env={**os.environ, **environment},
    )  # fmt: skip


def test_any_text_trains_and_is_shown_as_it_is(speaking, capsys):
    for text in TEXTS.values():
        capsys.readouterr()
        assert main(["sample", "texts", "--prompt", text]) == DONE
        out = capsys.readouterr().out
        assert not set(out) & {"\x1b", "\x07", "\x08", "\x7f", "\0", "\u202e", "\u200b"}
    assert main(["show", "texts"]) == DONE
    page = capsys.readouterr().out
    assert not set(page) & {"\x1b", "\x07", "\x08", "\x7f", "\0", "\u202e", "\u200b"}


def test_markup_is_printed_as_it_is(speaking, capsys):
    assert main(["sample", "texts", "--prompt", SHOWN]) == DONE
    out = capsys.readouterr().out
    for word in ("latvec[0]", "[/INST]", "[red]", "[/red]", "[link=file:///]"):
        assert word in out


def test_json_is_what_was_sampled(speaking, capsys):
    text = TEXTS["control characters"]
    assert main(["sample", "texts", "--prompt", text, "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["prompt"] == text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-16"])
def test_a_console_of_another_encoding(speaking, encoding):
    ended = in_a_process("show", "texts", PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert ended.returncode == DONE, ended.stderr
    assert not ended.stderr
    assert "step" in ended.stdout.decode(encoding)


def test_an_error_on_a_console_of_another_encoding(speaking):
    ended = in_a_process(
        "train", "settings.yaml", "--run.device", "🙂\x1b", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert ended.returncode == WRONG_INPUT
    assert b"\\U0001f642\\x1b" in ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_traceback(place, closed):
    line = f"exec {sys.executable} -m taut.cli runs {closed}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in ended.stderr


def test_mixed_line_ends_and_a_byte_order_mark_are_read(place):
    rows = [json.dumps({"prompt": f"{n}+1=", "answer": str(n + 1)}) for n in range(5)]
    (place / "mixed.jsonl").write_bytes(
        b"\xef\xbb\xbf" + "\r\n".join(rows[:3]).encode() + b"\n\n" + "\n".join(rows[3:]).encode()
    )
    (place / "mixed.yaml").write_bytes(
        b"\xef\xbb\xbf" + (place / "settings.yaml").read_bytes().replace(b"\n", b"\r\n")
    )
    assert main(["train", "mixed.yaml", "--data.path", "mixed.jsonl", "--quiet"]) == DONE
