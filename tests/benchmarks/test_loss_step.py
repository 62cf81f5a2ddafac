"""The ways of the loss step agree, and its claims come from its rows."""

import pytest
from loss_step import claims_of, inputs, measure, plain_way, taut_way


def test_the_ways_make_the_same_gradient():
    sizes = (37, 8, 20)
    assert taut_way(*sizes)() == pytest.approx(plain_way(*sizes)(), rel=1e-5)


def test_some_tokens_are_held_and_some_are_not():
    states, head, targets, old, _ = inputs(11, 4, 8)
    new = (states @ head.T).log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    assert (new - old).exp().tolist() == pytest.approx([2.718281828**d for d in (-0.1, 0.1, -0.5, 0.5)] * 2)


def test_sides_take_turns_at_a_tiny_size():
    rows = measure((50, 8, 16), ("plain",), rounds=1)
    assert [row["way"] for row in rows] == ["taut", "plain"]
    assert rows[0]["gradient_norm"] == pytest.approx(rows[1]["gradient_norm"], rel=1e-5)
    assert all(row["seconds"] > 0 and row["extra_bytes"] >= 0 for row in rows)


def test_claims_are_of_medians():
    def row(way, seconds, extra, norm=1.0):
        return {"way": way, "seconds": seconds, "extra_bytes": extra, "gradient_norm": norm}

    rows = [row("taut", 1.4, 20), row("plain", 1.0, 100), row("taut", 9.0, 20), row("taut", 1.3, 20)]
    claims = claims_of(rows)
    assert [claim["value"] for claim in claims] == [0.2, 1.4, 1.0]
    assert all(claim["holds"] for claim in claims)
    missed = claims_of([row("taut", 1.5, 21, norm=1.01), row("plain", 1.0, 100)])
    assert not any(claim["holds"] for claim in missed)
