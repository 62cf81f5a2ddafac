"""Steps written by a thread: order, errors, bounds, the end."""

import threading

import pytest
from made_up import CONFIG, make_step

from taut.store import Run, RunWriter
from taut.store.behind import DEPTH, WriteBehind


class Slow:
    """A writer whose steps each wait to be let through; it fails on the steps in `fails`."""

    def __init__(self, fails=()):
        self.written, self.fails, self.let = [], fails, threading.Semaphore(0)

    def append(self, step):
        assert self.let.acquire(timeout=10)
        if step in self.fails:
            raise OSError(f"no room for step {step}")
        self.written.append(step)


def test_the_loop_goes_on_and_every_step_is_there_at_the_end(tmp_path):
    with RunWriter.create(tmp_path / "run", CONFIG, {}) as writer, WriteBehind(writer) as steps:
        for step in range(5):
            steps.append(make_step(step))
        steps.wait()
        assert [row["step"] for row in Run.open(tmp_path / "run").scalars()] == list(range(5))
        steps.append(make_step(5))
    assert [row["step"] for row in Run.open(tmp_path / "run").scalars()] == list(range(6))


def test_so_many_steps_may_wait_and_one_more_makes_the_loop_wait():
    writer, appended = Slow(), threading.Event()
    with WriteBehind(writer) as steps:
        for step in range(1 + DEPTH):
            steps.append(step)  # one is being written
        assert writer.written == []
        loop = threading.Thread(target=lambda: (steps.append(9), appended.set()), daemon=True)
        loop.start()
        assert not appended.wait(0.1)
        writer.let.release(9)
        assert appended.wait(10)
    assert writer.written == [0, 1, 2, 9]


def test_an_error_is_raised_in_the_loop_and_nothing_is_written_after_it():
    writer = Slow(fails={1})
    steps = WriteBehind(writer)
    for step in range(3):
        steps.append(step)
    writer.let.release(9)
    for call in (steps.wait, lambda: steps.append(3), lambda: steps.__exit__(None, None, None)):
        with pytest.raises(OSError, match="no room for step 1"):
            call()
    assert writer.written == [0]


def test_an_error_of_the_last_write_is_raised_at_the_end():
    writer = Slow(fails={0})
    writer.let.release(9)
    with pytest.raises(OSError, match="no room for step 0"), WriteBehind(writer) as steps:
        steps.append(0)


def end_with(error, writer):
    with WriteBehind(writer) as steps:
        for step in range(3):
            steps.append(step)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_ends_the_loop_leaves_no_step_behind_and_is_told_before_the_disk(error):
    writer = Slow(fails={2})
    writer.let.release(9)
    with pytest.raises(error):
        end_with(error, writer)
    assert writer.written == [0, 1]
