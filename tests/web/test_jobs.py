"""Training processes: the queue, what is told of each, that they outlive the server. Little scripts stand for them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taut.web.jobs import Job, Jobs, is_locked

MAKES_A_RUN = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1]); folder.mkdir(parents=True); (folder / "run.db").touch()
print("trains", flush=True)
time.sleep(60)
"""
WAITS = "import time; print('making the model', flush=True); time.sleep(60)"
FAILS = "import sys; print('one'); sys.exit('out of memory')"


@pytest.fixture
def jobs(tmp_path):
    jobs = Jobs(tmp_path, limit=2)
    yield jobs
    for each in jobs.list():
        if each["status"] in ("starting", "running", "queued"):
            jobs.stop(each["name"])
    wait_for(lambda: not any(is_locked(log) for log in (tmp_path / ".workshop").glob("*.log")))


def job(jobs, name, code=MAKES_A_RUN, **rest):
    return Job(name, [sys.executable, "-c", code, str(jobs.root / name)], **rest)


def wait_for(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def status(jobs):
    return {each["name"]: each["status"] for each in jobs.list()}


def test_two_run_the_third_waits_and_follows_once_one_is_stopped(jobs):
    jobs.add([job(jobs, name) for name in "abc"])
    wait_for(lambda: status(jobs) == {"a": "running", "b": "running", "c": "queued"})
    assert jobs.names() == {"a", "b", "c"}
    assert jobs.stop("a").startswith("asked to end")
    wait_for(lambda: status(jobs) == {"b": "running", "c": "running"})


def test_one_that_waits_is_taken_from_the_queue(jobs):
    jobs.add([job(jobs, name) for name in "abc"])
    assert jobs.stop("c") == "taken from the queue"
    assert set(status(jobs)) == {"a", "b"}


def test_a_server_started_anew_finds_and_stops_what_runs(jobs):
    jobs.add([job(jobs, "a", facts={"fault": "no clip"})])
    wait_for(lambda: status(jobs) == {"a": "running"})
    anew = Jobs(jobs.root, limit=1)
    assert anew.list() == [{"name": "a", "status": "running", "fault": "no clip"}]
    anew.add([job(anew, "b")])
    assert status(anew) == {"a": "running", "b": "queued"}, "the limit counts those of the server before"
    anew.stop("a")
    wait_for(lambda: status(anew) == {"b": "running"})


def test_a_process_that_dies_before_its_run_is_told_with_its_last_lines_until_it_is_dismissed(jobs):
    jobs.add([job(jobs, "a", FAILS, facts={"seed": 3})])
    wait_for(lambda: status(jobs) == {"a": "failed"})
    assert jobs.list() == [{"name": "a", "status": "failed", "message": "one\nout of memory", "seed": 3}]
    jobs.stop("a")
    assert jobs.list() == []
    assert list((jobs.root / ".workshop").iterdir()) == []


def test_one_that_prepares_tells_its_last_line_and_holds_back_its_like(jobs):
    """Both would fine-tune the model of seed 0; the one of seed 1 need not wait for them."""
    jobs.limit = 3
    jobs.add([job(jobs, "a", WAITS, alone=0), job(jobs, "b", alone=0), job(jobs, "c", alone=1)])
    wait_for(lambda: status(jobs) == {"a": "starting", "b": "queued", "c": "running"})
    wait_for(lambda: jobs.list()[0].get("message") == "making the model")
    (jobs.root / "a").mkdir()
    (jobs.root / "a" / "run.db").touch()
    wait_for(lambda: status(jobs) == {"a": "running", "b": "running", "c": "running"})
    jobs.limit = 5
    jobs.add([job(jobs, "d", WAITS, alone=0), job(jobs, "e", WAITS, alone=0)])
    assert status(jobs) | {"d": "starting", "e": "starting"} == status(jobs), (
        "by now the model of seed 0 is there"
    )


def test_a_killed_process_is_no_longer_running_at_once(jobs):
    jobs.add([job(jobs, "a")])
    wait_for(lambda: status(jobs) == {"a": "running"})
    jobs._children["a"].kill()
    wait_for(lambda: status(jobs) == {})
    assert (jobs.root / ".workshop" / "a.log").read_text() == "trains\n", "the log stays"


@pytest.mark.parametrize("name", ["elsewhere", "..", "../a", ""])
def test_what_was_not_started_here_is_not_stopped_here(jobs, name):
    with pytest.raises(ValueError, match="was not started from this page"):
        jobs.stop(name)


def test_a_job_outlives_the_process_that_started_it(tmp_path):
    starter = (
        "import sys; from pathlib import Path; from taut.web.jobs import Job, Jobs\n"
        f"command = [sys.executable, '-c', {MAKES_A_RUN!r}, {str(tmp_path / 'a')!r}]\n"
        f"Jobs(Path({str(tmp_path)!r})).add([Job('a', command)])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", starter], check=True, env=environment)
    jobs = Jobs(tmp_path)
    wait_for(lambda: status(jobs) == {"a": "running"})
    jobs.stop("a")
    wait_for(lambda: status(jobs) == {})


def test_one_that_cannot_be_started_is_told_and_the_rest_go_on(jobs):
    jobs.limit = 1
    jobs.add([job(jobs, "a"), Job("b", ["/no/such/program"], {"seed": 5}), job(jobs, "c")])
    wait_for(lambda: status(jobs) == {"a": "running", "b": "queued", "c": "queued"})
    jobs.stop("a")
    wait_for(lambda: status(jobs) == {"b": "failed", "c": "running"})
    [told] = [each for each in jobs.list() if each["name"] == "b"]
    assert "No such file or directory: '/no/such/program'" in told["message"]
    assert told["seed"] == 5
    assert "b" in jobs.names()
    jobs.stop("b")
    assert status(jobs) == {"c": "running"}


def test_a_job_whose_entry_cannot_be_written_does_not_run(jobs):
    (jobs.root / ".workshop" / "a.json").mkdir(parents=True)
    jobs.add([job(jobs, "a", WAITS)])
    assert "Is a directory" in jobs.list()[-1]["message"]
    assert not is_locked(jobs.root / ".workshop" / "a.log")
    (jobs.root / ".workshop" / "a.json").rmdir()


def test_two_servers_on_a_folder_do_not_take_each_others_names(jobs):
    jobs.add([job(jobs, "a")])
    wait_for(lambda: status(jobs) == {"a": "running"})
    wait_for(lambda: (jobs.root / ".workshop" / "a.log").read_text() == "trains\n")
    other = Jobs(jobs.root, limit=2)
    other.add([job(other, "a")])
    assert [each["status"] for each in other.list()] == ["running", "failed"]
    assert "taken by another" in other.list()[1]["message"]
    assert (jobs.root / ".workshop" / "a.log").read_text() == "trains\n"
