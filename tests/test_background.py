"""The thread for side work: order, errors, bounds, its end."""

import threading

import pytest

from taut.background import Background


def test_pieces_are_done_in_order_and_their_results_kept():
    seen = []
    thread = Background("t")
    futures = [thread.submit(lambda i=i: seen.append(i) or i * i) for i in range(5)]
    assert [future.result(5) for future in futures] == [0, 1, 4, 9, 16]
    assert seen == [0, 1, 2, 3, 4]
    thread.close()
    thread.join()


def test_an_error_comes_out_where_the_result_is_asked_for_and_the_next_piece_is_done():
    thread = Background("t")
    bad, good = thread.submit(lambda: 1 / 0), thread.submit(lambda: 7)
    with pytest.raises(ZeroDivisionError):
        bad.result(5)
    assert good.result(5) == 7
    thread.close()


def test_closing_drops_what_has_not_begun():
    begun, go = threading.Event(), threading.Event()
    thread = Background("t")
    first = thread.submit(lambda: begun.set() or go.wait(5))
    assert begun.wait(5)
    second = thread.submit(lambda: "never")
    thread.close()
    go.set()
    thread.join()
    assert first.result() is True
    assert second.cancelled()


def test_a_full_queue_makes_its_giver_wait():
    begun, go, submitted = threading.Event(), threading.Event(), threading.Event()
    thread = Background("t", depth=1)
    thread.submit(lambda: begun.set() or go.wait(5))
    assert begun.wait(5)
    thread.submit(lambda: None)  # the one that may wait

    def one_more():
        thread.submit(lambda: None)
        submitted.set()

    threading.Thread(target=one_more, daemon=True).start()
    assert not submitted.wait(0.1)
    go.set()
    assert submitted.wait(5)
    thread.close()
