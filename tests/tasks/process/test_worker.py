"""What is left of a process of a user's code once its call is given up, or its run is gone: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from taut.tasks.process.worker import LostError, Worker
from taut.tasks.rewards.contract import Call

SERVER = "taut.tasks.rewards.serve"
RUN = """
import sys
from taut.tasks.process.worker import Worker
from taut.tasks.rewards.contract import Call
call = Call(prompts=["p"], texts=["t"], completion_ids=[[1]], columns={})
Worker("taut.tasks.rewards.serve", "score", sys.argv[1]).ask(("score", call), 60, lambda waited: None)
"""


def alive(pid):
    """A zombie, which nobody has asked about yet, is not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def read_pid(file):
    deadline = time.monotonic() + 60
    while not (file.is_file() and file.read_text()):
        assert time.monotonic() < deadline, "the function was never called"
        time.sleep(0.05)
    return int(file.read_text())


def is_gone(pid):
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")


@needs_proc
def test_what_the_code_started_ends_with_the_call_that_is_given_up(tmp_path):
    (tmp_path / "rewards.py").write_text(
        "import pathlib, subprocess\n"
        "def score(completions, **columns):\n"
        "    process = subprocess.Popen(['sleep', '600'])\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(process.pid))\n"
        "    process.wait()\n"
    )
    worker = Worker(SERVER, "score", f"{tmp_path / 'rewards.py'}:score")
    call = Call(prompts=["p"], texts=["t"], completion_ids=[[1]], columns={})
    with pytest.raises(LostError, match="gave no answer within 2 s"):
        worker.ask(("score", call), 2, lambda waited: None)
    assert is_gone(read_pid(tmp_path / "pid"))


@needs_proc
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel does not end it")
def test_code_that_holds_pythons_lock_ends_with_a_run_that_is_killed(tmp_path):
    (tmp_path / "rewards.py").write_text(
        "import os, pathlib, re\n"
        "def score(completions, **columns):\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "    re.match('(a+)+$', 'a' * 60 + 'b')\n"
    )
    run = subprocess.Popen([sys.executable, "-c", RUN, f"{tmp_path / 'rewards.py'}:score"])
    pid = read_pid(tmp_path / "pid")
    time.sleep(0.2)
    assert alive(pid)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert is_gone(pid)
