"""Two sides in turn, batch by batch: what both did, and how much faster one of them was."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from peers.protocol import Answer, Side

Row = dict[str, Any]
SETTLE = 0.1
"""Seconds between two batches: threads of the one before may spin on for a moment."""


def alternate(
    ours: Side, peer: Side, pairs: int, warm_up: int, tell: Callable[[str], None] = print
) -> list[tuple[Answer, Answer]]:
    """`pairs` answers of each side, after `warm_up` batches of each that don't count.

    Which of the two goes first changes from pair to pair, so that a machine that slows down slows both.
    """
    answers = []
    for number in range(-warm_up, pairs):
        order = (ours, peer) if number % 2 == 0 else (peer, ours)
        by_side = {}
        for side in order:
            time.sleep(SETTLE)
            by_side[side.name] = side.ask("batch")
        pair = by_side[ours.name], by_side[peer.name]
        tell(
            f"{'warm-up' if number < 0 else f'pair {number + 1}'}: {ours.name} {pair[0]['seconds']:.3f} s, "
            f"{peer.name} {pair[1]['seconds']:.3f} s"
        )
        if number >= 0:
            check_same_work(*pair)
            answers.append(pair)
    return answers


def check_same_work(ours: Answer, peer: Answer) -> None:
    """Raises ValueError where the sides did not do the same: tokens and optimiser steps are counted by each."""
    for what in ("prompt_tokens", "reply_tokens", "replies", "optimizer_steps"):
        if ours[what] != peer[what]:
            raise ValueError(f"not the same work: {what} {ours[what]} here and {peer[what]} there")


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Row:
    """How many times as long the second takes, over (ours, peer) seconds: of the medians, and pair by pair.

    `lowest` and `highest` are those of single pairs.
    """
    single = [peer / ours for ours, peer in pairs]
    medians = statistics.median(ours for ours, _ in pairs), statistics.median(peer for _, peer in pairs)
    return {
        "ours_seconds": medians[0],
        "peer_seconds": medians[1],
        "ratio": medians[1] / medians[0],
        "lowest": min(single),
        "highest": max(single),
    }
