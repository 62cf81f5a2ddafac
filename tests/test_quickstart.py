"""The page of quickstarts runs as it stands: its blocks are taken out and executed, in order, section by section."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from taut import Run
from taut.training.checkpoint import newest_checkpoint

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
_, FIRST, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")
THEIRS = re.compile(r"# with (?:TRL|verl)\n")


def title(section: str) -> str:
    return section.partition("\n")[0]


def blocks(section: str) -> list[tuple[str, str]]:
    """(language, text) of what is to be run or written: not what stands there as TRL's or verl's."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return [(language, text) for language, text in found if not THEIRS.match(text)]


def execute(section: str, folder: Path) -> None:
    for language, text in blocks(section):
        if named := FILE.match(text):
            (folder / named[1]).write_text(text, encoding="utf-8")
            continue
        command = {"python": [sys.executable, "-c", text], "sh": ["bash", "-ec", text]}[language]
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(SOURCE),
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"


def test_there_is_one_for_each():
    assert title(FIRST) == "A model to begin with"
    assert [title(section) for section in SECTIONS] == [
        "Your own reward function",
        "A reward model",
        "From TRL",
        "From verl",
    ]
    for section in SECTIONS:
        assert "AutoModelForCausalLM.from_pretrained" in blocks(section)[-1][1]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The folder as the first section leaves it."""
    folder = tmp_path_factory.mktemp("quickstart")
    execute(FIRST, folder)
    return folder


@pytest.mark.learning
@pytest.mark.parametrize("section", SECTIONS, ids=title)
def test_it_runs_from_nothing_to_a_better_policy(section, begun, tmp_path):
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    execute(section, tmp_path)
    before = AutoModelForCausalLM.from_pretrained(tmp_path / "adder").state_dict()
    runs = [Run.open(directory) for directory in (tmp_path / "runs").iterdir()]
    assert len(runs) == section.count("\ntaut train ") + section.count("run = train(") > 0
    for run in runs:
        assert run.status == "finished"
        trained = newest_checkpoint(run.directory / "checkpoints")
        policy = AutoModelForCausalLM.from_pretrained(trained).state_dict()
        assert not any(torch.equal(before[name], weight) for name, weight in policy.items())
        # On the same held-out prompts: a step's mean reward says as much of the prompts that it drew.
        before_and_after = run.series("eval/accuracy")[1]
        assert before_and_after[-1] > before_and_after[0] + 0.05
