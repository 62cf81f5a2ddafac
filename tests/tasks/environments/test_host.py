"""Environments in their processes: many episodes at once, any of which may raise, hang or die."""

from __future__ import annotations

import time

import pytest

from taut.tasks.environments.host import EnvironmentHost, Failure, Turn

ENVIRONMENTS = """
import asyncio, os, time

class Counter:
    tools = [{"type": "function", "function": {"name": "count"}}]
    closed = []
    def reset(self, row):
        if row == "bad":
            raise KeyError("gold")
        self.row, self.said = row, []
        return f"start {row}"
    def step(self, reply):
        self.said.append(reply)
        if reply == "raise":
            raise ValueError("no")
        if reply == "hang":
            time.sleep(60)
        if reply == "die":
            os._exit(3)
        if reply == "nan":
            return None, float("nan")
        if reply == "process":
            return str(os.getpid()), 0.0
        if reply == "closed":
            return str(self.closed), 0.0
        return (None if reply == "stop" else " ".join([self.row, *self.said])), len(self.said)
    @property
    def logged(self):
        return {"turns": len(self.said)}
    def cut(self, reply):
        return float(reply or 0.5)
    def close(self):
        self.closed.append(self.row)
        raise RuntimeError("whatever it raises")

class Waiter:
    async def reset(self, row):
        self.row = row
        return [{"role": "user", "content": row}]
    async def step(self, reply):
        if reply == "raise":
            raise ValueError("no")
        await asyncio.sleep(60 if reply == "hang" else 0.5)
        return [{"role": "tool", "content": reply}], 1

def make_counter():
    return Counter()

class Sleeper(Counter):
    def reset(self, row):
        time.sleep(60 if row == "asleep" else 0)
        return row

class NoStep:
    def reset(self, row):
        return ""

class Needs(Counter):
    def step(self, reply, more):
        return None, 0.0

class Wrong(Counter):
    def step(self, reply):
        return {"number": ("a", "b", "c"), "text": ("a", "much"), "kind": (3, 1.0), "role": ([{}], 1.0)}.get(reply, 7)

class WrongLog(Counter):
    logged = ["turns"]

class Broken:
    def __init__(self):
        raise OSError("no display")
"""


@pytest.fixture(scope="module")
def make_host(tmp_path_factory):
    path = tmp_path_factory.mktemp("environments") / "made.py"
    path.write_text(ENVIRONMENTS)
    return lambda name="Counter", **care: EnvironmentHost(name, f"{path}:{name}", **care)


def test_episodes_keep_their_state_apart_and_pay_turn_by_turn(make_host):
    host = make_host(workers=2)
    numbers, openings = host.reset(["a", "b", "c"])
    assert openings == ["start a", "start b", "start c"]
    a, b, c = numbers
    assert host.step({a: "x", c: "y"}) == [Turn("a x", 1.0), Turn("c y", 1.0)]
    assert host.step({c: "stop", a: "z", b: "stop"}) == [
        Turn(None, 2.0),
        Turn("a x z", 2.0),
        Turn(None, 1.0),
    ]
    assert host.end([b, a]) == [{"turns": 1.0}, {"turns": 2.0}]
    (ended,) = host.step({a: "x"})
    assert isinstance(ended, Failure)


def test_an_environment_may_pay_for_an_episode_that_was_cut(make_host):
    host = make_host("Counter")
    numbers, _ = host.reset(["a", "b", "c"])
    whole, cut, odd = host.cut(dict(zip(numbers, (None, "2", "odd"), strict=True)))
    assert (whole, cut) == (Turn(None, 0.5), Turn(None, 2.0))
    assert odd.why.startswith("raised ValueError")
    waiter = make_host("Waiter")
    assert waiter.cut(dict.fromkeys(waiter.reset(["a"])[0])) == [Turn(None, 0.0)]


def test_an_episode_that_ended_is_closed_whatever_close_raises(make_host):
    host = make_host()
    (a, b), _ = host.reset(["a", "b"])
    host.end([a])
    assert (
        host.step({b: "closed"}) == [Turn("['a']", 0.0)]
        or host.step({b: "closed"})[0].messages.count("'a'") == 1
    )


def test_its_tools_are_known_before_any_episode(make_host):
    assert make_host().tools == [{"type": "function", "function": {"name": "count"}}]
    assert make_host("Waiter").tools is None
    assert make_host("make_counter").openings(["a"], "data") == ["start a"]


def test_what_a_step_raises_is_that_episodes_own_failure(make_host):
    host = make_host()
    (a, b), _ = host.reset(["a", "b"])
    failed, other = host.step({a: "raise", b: "x"})
    assert failed.why.startswith("raised ValueError: no, at ")
    assert failed.why.endswith("made.py:15")
    assert other == Turn("b x", 1.0)
    assert host.step({a: "nan"}) == [Failure("paid nan")]


@pytest.mark.parametrize(
    ("reply", "why"), [("hang", "gave no answer within 0.5 s"), ("die", "ended its process")]
)
def test_a_process_that_is_lost_takes_its_episodes_along_and_no_others(make_host, reply, why):
    host = make_host(workers=2, timeout=0.5)
    numbers, _ = host.reset(["a", "b", "c", "d"])
    a, b, c, d = numbers
    answers = host.step({a: reply, b: "x", c: "x", d: "x"})
    lost = Failure("ended with its process, which another episode had blocked or killed")
    assert answers == [Failure(why), Turn("b x", 1.0), lost, Turn("d x", 1.0)]
    assert host.end([a, b]) == [{}, {"turns": 1.0}]
    assert host.reset(["e"])[1] == ["start e"], "the process is there again"


def test_async_episodes_wait_together_and_each_has_its_own_timeout(make_host):
    host = make_host("Waiter", timeout=2.0)
    numbers, openings = host.reset([f"row {n}" for n in range(20)])
    assert openings[3] == [{"role": "user", "content": "row 3"}]
    started = time.monotonic()
    replies = {number: str(number) for number in numbers} | {numbers[0]: "raise", numbers[1]: "hang"}
    answers = host.step(replies)
    assert time.monotonic() - started < 6, "20 answers of half a second, one after the other, would take 9"
    assert answers[0].why.startswith("raised ValueError: no, at ")
    assert answers[1] == Failure("gave no answer within 2 s")
    assert answers[2:] == [Turn([{"role": "tool", "content": str(n)}], 1.0) for n in numbers[2:]]


def test_a_row_that_cannot_be_opened_is_named(make_host):
    with pytest.raises(
        ValueError, match=r"data, row 70: reset of environment Counter raised KeyError: 'gold'"
    ):
        make_host().openings(["good"] * 69 + ["bad"], "data")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoStep", "environment NoStep makes a NoStep, which has no step"),
        ("Needs", "environment Needs: step is called with reply alone: missing a required argument: 'more'"),
        ("Broken", r"environment Broken, on being loaded, raised OSError: no display"),
        ("Nothing", r"environment .*made\.py:Nothing: .* has no Nothing; it has Counter, "),
    ],
)
def test_what_is_no_environment_is_told_when_it_is_made(make_host, name, message):
    with pytest.raises(ValueError, match=message):
        make_host(name)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("number", "step must return two values, messages .* and a reward, not tuple"),
        ("anything", "step must return two values, messages .* and a reward, not int 7"),
        ("text", "the reward of a step must be a number, not 'much'"),
        ("kind", "step must return text or messages, not int 3"),
        ("role", r"step must return text or messages, not list \[{}\]"),
    ],
)
def test_what_no_episode_could_return_ends_the_run(make_host, reply, message):
    host = make_host("Wrong")
    (number,), _ = host.reset(["a"])
    with pytest.raises(ValueError, match=f"environment Wrong: {message}"):
        host.step({number: reply})


def test_what_is_logged_must_be_numbers_by_name(make_host):
    host = make_host("WrongLog")
    (number,), _ = host.reset(["a"])
    with pytest.raises(ValueError, match="environment WrongLog: logged must map names to numbers, not list"):
        host.end([number])


def test_a_reset_that_hangs_is_told_after_one_timeout(make_host):
    started = time.monotonic()
    with pytest.raises(
        ValueError, match=r"data, row 2: reset of environment Sleeper gave no answer within 2 s"
    ):
        make_host("Sleeper", timeout=2.0).openings(["awake"] + ["asleep"] * 9, "data")
    assert time.monotonic() - started < 2 * 4, "nine of them would take 18 s"
