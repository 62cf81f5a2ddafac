"""What is appended comes back: bit for bit, trimmed, whatever it holds."""

import json
import math

import numpy as np
import pytest
from made_up import CONFIG, NAN_WITH_PAYLOAD, make_reply, make_run, make_step

from taut.store import Run, RunWriter, StepRecord
from taut.store.codec import from_json, to_json
from taut.store.record import TOKEN_COLUMNS


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def append_replies(directory, *replies):
    with RunWriter.create(directory, CONFIG, facts={}) as writer:
        writer.append(StepRecord(1, {}, {}, replies))
    return Run.open(directory).replies(1)


def test_replies_come_back_bit_for_bit(tmp_path):
    step = make_step(1)
    step.replies[0].behavior_logprobs[:] = (NAN_WITH_PAYLOAD, -np.inf, -0.0)
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        writer.append(step)
    stored = Run.open(tmp_path / "run").replies(1)
    assert len(stored) == 4
    for given, read in zip(step.replies, stored, strict=True):
        for column in ("prompt_ids", "ids", "mask"):
            assert same_bits(getattr(given, column), getattr(read, column)), column
        for column in TOKEN_COLUMNS:
            a, b = getattr(given, column), getattr(read, column)
            assert (a is None and b is None) or same_bits(a, b), column
        for column in (
            "prompt_index",
            "group",
            "sample",
            "version",
            "prompt_text",
            "text",
            "reward",
            "terms",
        ):
            assert getattr(given, column) == getattr(read, column), column
        assert read.bootstrap_value is None


def test_every_optional_quantity_is_stored(tmp_path):
    values = np.arange(3, dtype=np.float32)
    given = make_reply(
        np.random.default_rng(0), 3, **dict.fromkeys(TOKEN_COLUMNS, values), bootstrap_value=np.float32(0.5)
    )
    (read,) = append_replies(tmp_path / "run", given)
    assert all(same_bits(getattr(read, column), values) for column in TOKEN_COLUMNS)
    assert read.bootstrap_value == 0.5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0 in the middle \0",
        "\x1b[31mred\x1b[0m\r\n\x07",
        "🙂👩‍👩‍👧 e\u0301 \u202eright to left",
        "'); DROP TABLE replies; --",
        "latvec[0] [/INST] [red] <img src=x onerror=alert(1)></script>",
        "x" * 2_000_000,
    ],
)
def test_hostile_text_survives(tmp_path, text):
    reply = make_reply(np.random.default_rng(0), 2, text=text, prompt_text=text, terms={text: 1.0})
    (read,) = append_replies(tmp_path / "run", reply)
    assert (read.text, read.prompt_text, read.terms) == (text, text, {text: 1.0})


def test_lone_surrogate_becomes_a_question_mark(tmp_path):
    (read,) = append_replies(tmp_path / "run", make_reply(np.random.default_rng(0), 2, text="a\ud800b"))
    assert read.text == "a?b"


def test_empty_reply(tmp_path):
    append_replies(tmp_path / "run", make_reply(np.random.default_rng(0), 0))
    run = Run.open(tmp_path / "run")
    assert run.replies(1)[0].ids.shape == (0,)
    assert run.batch(1).reply_ids.shape == (1, 0)


def test_array_of_the_wrong_length_is_our_mistake(tmp_path):
    reply = make_reply(np.random.default_rng(0), 3, entropy=np.zeros(4, np.float32))
    with pytest.raises(AssertionError, match="entropy has 4 entries for 3 tokens"):
        append_replies(tmp_path / "run", reply)


def test_json_is_strict_and_keeps_non_finite_numbers():
    value = {"a": [math.inf, -math.inf, 1.5, None, "text"], "b": np.float32(math.nan), "c": np.arange(2)}
    text = to_json(value)
    assert json.loads(text, parse_constant=pytest.fail) == {
        "a": ["Infinity", "-Infinity", 1.5, None, "text"],
        "b": "NaN",
        "c": [0, 1],
    }
    read = from_json(text)
    assert read["a"] == [math.inf, -math.inf, 1.5, None, "text"]
    assert math.isnan(read["b"])


def test_non_finite_scalars_come_back(tmp_path):
    scalars = {"loss/policy": math.nan, "ratio/max": math.inf, "ratio/min": -math.inf}
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        writer.append(
            StepRecord(1, {"dual_clip": math.inf}, scalars, [make_reply(np.random.default_rng(0), 2)])
        )
        writer.event("check", "ratio", "gone", level="error", step=1, data={"worst": math.nan})
    run = Run.open(tmp_path / "run")
    (row,) = run.scalars()
    assert math.isnan(row["loss/policy"])
    assert (row["ratio/max"], row["ratio/min"]) == (math.inf, -math.inf)
    assert run.batch(1).constants == {"dual_clip": math.inf}
    assert math.isnan(run.events()[0]["data"]["worst"])


def test_batch_is_padded_with_zeros(tmp_path):
    given = make_step(2)
    run = Run.open(make_run(tmp_path / "run"))
    batch = run.batch(2)
    assert batch.reply_ids.shape == batch.response_mask.shape == batch.old_logprobs.shape == (4, 5)
    assert batch.lengths.tolist() == [3, 5, 1, 4]
    assert batch.rewards.tolist() == [0, 1, 2, 3]
    assert batch.ref_logprobs is None
    assert batch.bootstrap_values is None
    assert batch.truncated.tolist() == [False] * 4
    for row, reply in enumerate(given.replies):
        length = len(reply.ids)
        assert same_bits(batch.advantages[row, :length], reply.advantages)
        assert not batch.advantages[row, length:].any()
        assert not batch.response_mask[row, length:].any()


def test_batch_holds_the_updates_in_order(tmp_path):
    given = make_step(2)
    batch = Run.open(make_run(tmp_path / "run")).batch(2)
    assert [update[:2] for update in batch.updates] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [update.applied for update in batch.updates] == [True, True, False, False]
    assert batch.updates[1].rows.tolist() == [1, 3]
    assert batch.updates[1].scalars == {"loss/policy": 0.5, "grad/norm": 1.25}
    assert same_bits(batch.updates[3].logprobs[1, :4], given.optimizer_steps[3].logprobs[1])


def test_rows_of_a_minibatch_keep_their_order(tmp_path):
    step = make_step(1)
    for update in step.optimizer_steps:
        update.rows, update.logprobs = update.rows[::-1], update.logprobs[::-1]
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        writer.append(step)
    assert Run.open(tmp_path / "run").batch(1).updates[0].rows.tolist() == [2, 0]
