"""A quiet run says what it waits for."""

import time

from taut.launch.watchdog import WAITING_FOR, Watchdog


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_quiet_phase_is_named_and_its_end_too():
    said, stop = [], []
    with Watchdog(lambda *words: said.append(words), lambda: bool(stop), 3, quiet=0.1) as watchdog:
        for phase, what in WAITING_FOR.items():
            said.clear()
            watchdog.phase(phase)
            wait_until(lambda what=what: any(words[0].endswith(f"s for {what}") for words in said))
            assert said[-1][0].startswith("step 3 has waited")
        watchdog.observe(3, {})
        stop.append(True)
        wait_until(lambda: ("finishing step 4 and saving it; interrupt again to stop at once", 0, 0) in said)
        watchdog.quiet = 1000.0
        wait_until(lambda: said[-1] == ("", 0, 0))


def test_a_run_that_moves_is_left_alone():
    said = []
    with Watchdog(lambda *words: said.append(words), lambda: False, 0, quiet=5.0) as watchdog:
        for _ in range(20):
            watchdog.phase("sample")
            time.sleep(0.01)
    assert said == []
