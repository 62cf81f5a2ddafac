"""Reward functions that are none, that fail, and that do what they please with their process."""

import pytest

from taut.cli import WRONG_INPUT

SCORE = "def score(completions, **columns):\n    "
FILES = {
    # what the file holds, the thing, the fix
    "empty": ("", "rewards.py has no score", "it has none"),
    "a syntax error": ("def score(:\n", "rewards.py", "SyntaxError.*line 1"),
    "a tab among spaces": ("def score():\n    a = 1\n\treturn a\n", "rewards.py", "TabError"),
    "not text": (b"\x00\xff\xfe", "rewards.py", "SyntaxError|null bytes"),
    "an import that is not there": ("import nowhere\n", "rewards.py", "No module named 'nowhere', at .*rewards.py:1"),
    "an error in the module": ("x = 1 / 0\n", "rewards.py", "ZeroDivisionError.*rewards.py:1"),
    "an exit in the module": ("import sys\nsys.exit(0)\n", "score", "on being loaded, raised SystemExit"),
    "a hard exit in the module": ("import os\nos._exit(0)\n", "score", "ended its process"),
    "another function": ("def scores():\n    pass\n", "rewards.py has no score", "it has scores"),
    "no function": ("score = 5\n", "rewards.py has no score", "it has none"),
    "a class": ("class score:\n    def __init__(self, wanted):\n        pass\n", "score asks for wanted", "rename"),
    "an unknown column": ("def score(completions, target):\n    return []\n", "score asks for target", "rename"),
    "a positional argument": ("def score(completions, extra, /):\n    return []\n", "score asks for extra", "rename"),
}  # fmt: skip
CALLS = {
    # what the file holds, the thing, the fix; found out when it is first called
    "no list": (SCORE + "return 1.0\n", "score", "must return a list of [0-9]+ numbers"),
    "nothing": (SCORE + "pass\n", "score", "must return a list of [0-9]+ numbers"),
    "a generator": (SCORE + "yield 1.0\n", "score", "must return a list of [0-9]+ numbers"),
    "too few": (SCORE + "return [1.0]\n", "score returned 1 numbers", "for 2 replies"),
    "texts": (SCORE + "return ['1'] * len(completions)\n", "score returned '1'", "each must be a number"),
    "a list of lists": (SCORE + "return [[1]] * len(completions)\n", r"score returned \[1\]", "each must be a number"),
    "nan": (SCORE + "return [float('nan')] * len(completions)\n", "score returned nan", "none of the 8 replies"),
    "infinity": (SCORE + "return [float('inf')] * len(completions)\n", "score returned inf", "none of the 8 replies"),
    "beyond float": (SCORE + "return [10**400] * len(completions)\n", "beyond float32", "none of the 8 replies"),
    "an error": (SCORE + "raise KeyError('[red]')\n", r"raised KeyError: '\[red\]'", "rewards.py:2"),
    "an error of a page": (SCORE + "raise KeyError('x' * 10**6)\n", "score raised KeyError: 'xxx", r"xxx\.\.\."),
    "an error that cannot be shown": (
        "class Odd(Exception):\n    def __str__(self):\n        raise ValueError('no')\n" + SCORE + "raise Odd\n",
        "score raised Odd", "rewards.py:5"),
    "an exit": (SCORE + "raise SystemExit\n", "raised SystemExit", "rewards.py:2"),
    "a hard exit": (SCORE + "import os; os._exit(3)\n", "score", "ended its process"),
    "a recursion without end": (
        SCORE + "return score(completions, **columns)\n", "raised RecursionError", "rewards.py:2"),
    "a kill": (SCORE + "import os; os.kill(os.getpid(), 9)\n", "score", "ended its process"),
    "an interrupt": (SCORE + "raise KeyboardInterrupt\n", "raised KeyboardInterrupt", "rewards.py:2"),
    "a closed connection": (SCORE + "import os; os.closerange(3, 256); return []\n", "score", "ended its process"),
    "garbage on the connection": (
        SCORE + "import os\n    for fd in range(3, 256):\n        try: os.write(fd, b'\\0\\0\\0\\4junk')\n"
        "        except OSError: pass\n    return []\n", "score", "process|no answer"),
    "for ever": (SCORE + "import time; time.sleep(100)\n", "score gave no answer", "within 0.5 s"),
}  # fmt: skip
REFERENCES = {
    "a file that is not there": ("nowhere.py:score", "nowhere.py", "there is no file"),
    "a module that is not there": ("nowhere.at.all:score", "nowhere.at.all", "No module named"),
    "no function named": ("rewards.py", "'rewards.py'", "file.py:function"),
    "nothing behind the colon": ("rewards.py:", "'rewards.py:'", "file.py:function"),
    "a verifier misspelt": ("exact_match", "'exact_match'", "did you mean exact-match"),
    "nothing": ("", "reward = null", "valid string"),
    "a plus at the end": ("exact-match + ", "reward", "must be one of exact-match"),
    "a weight alone": ("0.5*", "'0.5\\*'", "must be one of exact-match"),
    "two weights": ("0.5*0.5*exact-match", "0.5\\*exact-match", "must be one of exact-match"),
    "a huge weight": ("1e999*exact-match", "1e999", "a finite number"),
    "a folder that is not there": ("model:./rewards", "reward model ./rewards", "folder"),
    "a reward model that is none": ("model:a/b/c", "reward model a/b/c", "folder"),
    "a policy for a reward model": ("model:model", "reward model model", "labels and must have one"),
    "markup": ("[red]rewards[0]", r"'\[red\]rewards\[0\]'", "file.py:function"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "thing", "fix"), FILES.values(), ids=FILES)
def test_a_bad_reward_function_is_refused(refused, place, monkeypatch, content, thing, fix):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (place / "rewards.py").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(["train", "settings.yaml", "--reward", "rewards.py:score"], thing, fix)


@pytest.mark.parametrize(("content", "thing", "fix"), CALLS.values(), ids=CALLS)
def test_a_reward_function_that_fails_is_told(refused, place, monkeypatch, content, thing, fix):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (place / "rewards.py").write_text(content)
    timeout = "0.5" if "sleep" in content else "30"
    settings = ["settings.yaml", "--reward", "rewards.py:score", "--scoring.timeout", timeout]
    refused(["train", *settings], thing, fix, begun=True)


@pytest.mark.parametrize(("reference", "thing", "fix"), REFERENCES.values(), ids=REFERENCES)
def test_a_bad_reward_is_refused(refused, reference, thing, fix):
    refused(["train", "settings.yaml", f"--reward={reference}"], thing, fix, WRONG_INPUT)
