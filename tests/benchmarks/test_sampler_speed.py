"""The sampler's benchmark on a tiny model, and its arithmetic on numbers worked out by hand."""

from collections import Counter

import pytest
from ceilings import Matrices
from peers.work import Work
from sampler_speed import claims_of, in_turn, measure, row_of

ROW_OF = {
    "matrices": Matrices(body=Counter({(30, 10): 2}), head=(40, 10), attention=0),
    "limits": {"gemm_per_second": 4000.0, "read_bytes_per_second": 2000.0},
    "weights": "made up",
    "new_tokens": 5,
}


@pytest.mark.parametrize(("replies", "binds"), [(1, "reading"), (8, "multiplying")])
def test_the_ceiling_that_binds(replies, binds):
    row = row_of(
        **ROW_OF, shape=(1, replies), taken={"ours": [(21.0, 1.0)], "peer": [(41.0, 1.0), (45.0, 1.0)]}
    )
    # 1,000 weights: 4,000 bytes at 2,000 a second; 2,000 operations a reply at 4,000 a second.
    assert row["least_seconds_reading"] == 2.0
    assert row["least_seconds_multiplying"] == 0.5 * replies
    assert row["ours_decode_seconds"] == 5.0
    assert row["peer_decode_seconds"] == 10.5
    assert row["ours_share_of_ceiling"] == {"reading": 2 / 5, "multiplying": 4 / 5}[binds]
    assert row["ratio"] == pytest.approx(43 / 21)
    assert [claim["holds"] for claim in claims_of([row])] == ([True] if binds == "multiplying" else [])


def test_both_ways_sample_as_many_tokens(tmp_path):
    rows = measure(Work("tiny", "tiny", 8, 8, 3, threads=1), pairs=1, models=tmp_path)
    assert [row["batch"] for row in rows] == [1, 8, 64, 64]
    assert all(len(row["seconds"]["ours"]) == 1 and row["ours_tokens_per_second"] > 0 for row in rows)


def test_ways_that_sample_different_numbers_are_refused():
    with pytest.raises(ValueError, match=r"\[2, 3\] tokens"):
        in_turn({"ours": lambda n: 2, "peer": lambda n: 3}, new_tokens=3, pairs=1)
