"""Which batches stay."""

import pytest
from made_up import CONFIG, make_step

from taut.store import RetentionPolicy, Run, RunWriter
from taut.store.retention import KeptBatch, batches_to_drop

KIND = {"superseded": False, "check_failed": False}


def kept_steps(batches, policy):
    dropped = batches_to_drop(batches, policy)
    return [batch.step for batch in batches if batch.id not in dropped]


def test_newest_and_every_fiftieth():
    batches = [KeptBatch(id=step, step=step, size=1, **KIND) for step in range(1, 231)]
    assert kept_steps(batches, RetentionPolicy()) == [50, 100, *range(131, 231)]


def test_failed_checks_stay():
    batches = [
        KeptBatch(id=step, step=step, size=1, superseded=False, check_failed=step == 3)
        for step in range(1, 9)
    ]
    assert kept_steps(batches, RetentionPolicy(newest=2)) == [3, 7, 8]


def test_over_budget_the_oldest_go_first():
    batches = [KeptBatch(id=step, step=step, size=10, **KIND) for step in (50, 97, 98, 99)]
    assert kept_steps(batches, RetentionPolicy(newest=3, max_bytes=40)) == [50, 97, 98, 99]
    assert kept_steps(batches, RetentionPolicy(newest=3, max_bytes=39)) == [97, 98, 99]
    assert kept_steps(batches, RetentionPolicy(newest=3, max_bytes=25)) == [98, 99]


def test_newest_batch_stays_whatever_its_size():
    batches = [KeptBatch(id=step, step=step, size=10, **KIND) for step in (1, 2)]
    assert kept_steps(batches, RetentionPolicy(max_bytes=5)) == [2]


def test_superseded_batches_go():
    batches = [
        KeptBatch(1, 1, 1, False, False),
        KeptBatch(2, 2, 1, True, True),
        KeptBatch(3, 2, 1, False, False),
    ]
    assert batches_to_drop(batches, RetentionPolicy()) == [2]


def test_dropped_batches_leave_their_scalars(tmp_path):
    policy = RetentionPolicy(newest=2)
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}, retention=policy) as writer:
        for step in range(46, 57):
            if step == 52:
                writer.event("check", "mismatch", "too far", level="error", step=step)
            if step == 53:
                writer.event("check", "mismatch", "nearly", level="warning", step=step)
            writer.append(make_step(step))
    run = Run.open(tmp_path / "run")
    assert run.kept_steps() == [50, 52, 55, 56]
    assert len(run.replies(52)) == 4
    assert len(run.batch(50).updates) == 4
    assert [row["step"] for row in run.scalars()] == list(range(46, 57))
    for read in (run.replies, run.batch, run.optimizer_steps):
        with pytest.raises(ValueError, match="step 51; steps kept: 50, 52, 55-56"):
            read(51)
