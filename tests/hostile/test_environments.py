"""Environments and trackers that are none."""

import pytest

FILES = {
    # what the file holds, the thing, the fix
    "empty": ("", "env.py has no World", "it has none"),
    "a syntax error": ("class World(:\n", "env.py", "SyntaxError"),
    "an import that is not there": ("import nowhere\n", "env.py", "No module named 'nowhere'"),
    "a hard exit": ("import os\nos._exit(0)\n", "World", "ended its process"),
    "a class without methods": ("class World:\n    pass\n", "World", "reset"),
    "arguments": ("class World:\n    def __init__(self, size):\n        pass\n", "World", "size"),
    "an opening that is none": (
        "class World:\n    def reset(self, row):\n        return 5\n    def step(self, reply):\n        pass\n",
        "World|row 1", "text|messages"),
    "a reset that fails": (
        "class World:\n    def reset(self, row):\n        1 / 0\n    def step(self, reply):\n        pass\n",
        "World", "ZeroDivisionError"),
}  # fmt: skip
NAMES = {
    "a path that names no class": ("--environment.path=env.py", "environment.path = env.py", "file.py:Class"),
    "a file that is not there": ("--environment.path=none.py:World", "none.py", "there is no file"),
    "a tracker misspelt": ("--run.trackers=wandbb", "wandbb", "wandb"),
    "trackers that are numbers": ("--run.trackers=[1, 2]", "run.trackers", "wandb|string"),
}


@pytest.mark.parametrize(("content", "thing", "fix"), FILES.values(), ids=FILES)
def test_a_bad_environment_is_refused(refused, place, monkeypatch, content, thing, fix):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (place / "env.py").write_text(content)
    refused(
        ["train", "settings.yaml", "--environment.path", "env.py:World", "--reward", "environment"],
        thing,
        fix,
    )


@pytest.mark.parametrize(("setting", "thing", "fix"), NAMES.values(), ids=NAMES)
def test_a_bad_name_is_refused(refused, setting, thing, fix):
    refused(["train", "settings.yaml", setting], thing, fix)
