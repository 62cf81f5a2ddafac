"""A place as a user would have it, and what must be true when something in it is bad."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from taut.cli import DONE, WRONG_INPUT, main
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.store import Run
from taut.tasks.adder import CHARACTERS, END

SETTINGS = """
run: {steps: 1, threads: 1, name: new}
model: {path: model}
data: {path: sums.jsonl}
sampling: {max_new_tokens: 4}
algorithm: {preset: ppo-batch-mean, prompts_per_step: 4, replies_per_prompt: 2}
"""


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model, nine sums, their settings, and a finished run `first` of one step."""
    folder = tmp_path_factory.mktemp("hostile")
    model = tiny_gpt2(len(CHARACTERS), CHARACTERS.index(END), seed=0, width=16, heads=2)
    save_model(model, character_tokenizer(CHARACTERS, END), folder / "model")
    sums = [
        {
            "prompt": f"{a}+{b}=",
            "answer": str(a + b),
            "completion": str(a + b),
            "chosen": "1",
            "rejected": "2",
        }
        for a in range(3)
        for b in range(3)
    ]
    (folder / "sums.jsonl").write_text("\n".join(map(json.dumps, sums)))
    (folder / "settings.yaml").write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "settings.yaml", "--run.name", "first", "--quiet"]) == DONE
    return folder


@pytest.fixture
def place(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to do damage in; commands run there."""
    shutil.copytree(original, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every path beneath it, with the bytes of those that are files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def refused(place: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Asserts that a command ends in a short error that names the thing and the fix, and changes no file.

    `begun`: what is wrong shows only in the first step, so that there is a failed run.
    """

    def run(arguments: list[str], thing: str, fix: str, code: int = WRONG_INPUT, begun: bool = False) -> None:
        before = contents(place)
        capfd.readouterr()
        ended = main(arguments)
        out, err = capfd.readouterr()
        print(err)  # shown where one of these fails
        assert ended == code
        assert len(err.splitlines()) < 10
        assert max(map(len, err.splitlines())) < 600
        assert "Traceback" not in out + err
        assert not re.search(r"^step ", out, re.MULTILINE)
        assert re.search(thing, err)
        assert re.search(fix, err)
        if begun:
            assert Run.open("runs/new").status == "failed"
            shutil.rmtree("runs/new")
        assert contents(place) == before

    return run
