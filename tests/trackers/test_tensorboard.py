"""Event files are read again by TensorBoard's own readers."""

import math
from dataclasses import replace

import pytest
import yaml

from taut.trackers.tensorboard import TensorBoardTracker

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def read(run):
    return event_accumulator.EventAccumulator(str(run.directory / "tensorboard")).Reload()


def series(run, tag):
    return [(event.step, event.value) for event in read(run).Scalars(tag)]


def test_metrics_keep_their_names_and_steps(run):
    tracker = TensorBoardTracker(run)
    tracker.log(0, {"eval/accuracy": 0.25})
    tracker.log(1, {"reward/mean": 0.5, "reward/a.b": 1.0})
    tracker.log(2, {"reward/mean": 0.75})
    tracker.close(None)
    assert series(run, "eval/accuracy") == [(0, 0.25)]
    assert series(run, "reward/mean") == [(1, 0.5), (2, 0.75)]
    assert series(run, "reward/a.b") == [(1, 1.0)]


def test_a_step_can_be_read_before_the_run_ends(run):
    tracker = TensorBoardTracker(run)
    tracker.log(1, {"reward/mean": 0.5})
    assert series(run, "reward/mean") == [(1, 0.5)]
    tracker.close(None)


def test_the_config_is_a_text(run):
    TensorBoardTracker(run).close(None)
    reader = read(run)
    assert reader.PluginTagToContent("text").keys() == {"config"}
    (text,) = reader.Tensors("config")[0].tensor_proto.string_val
    written = text.decode().removeprefix("```yaml\n").removesuffix("```")
    assert yaml.safe_load(written) == run.config.model_dump()


def test_numbers_that_are_none_stay_what_they_are(run):
    tracker = TensorBoardTracker(run)
    for step, value in enumerate((math.nan, math.inf, -math.inf, 1e300)):
        tracker.log(step, {"loss/policy": value})
    tracker.close(None)
    values = [value for _, value in series(run, "loss/policy")]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, math.inf], "float32 has no 1e300"


def test_a_resumed_run_takes_the_place_of_the_steps_it_takes_again(run):
    for tracker, steps, reward in (
        (TensorBoardTracker(run), (0, 1, 2, 3), 0.25),
        (TensorBoardTracker(replace(run, resumed=True)), (2, 3, 4), 0.5),
    ):
        for step in steps:
            tracker.log(step, {"reward/mean": reward})
        tracker.close(KeyboardInterrupt())
    assert series(run, "reward/mean") == [(0, 0.25), (1, 0.25), (2, 0.5), (3, 0.5), (4, 0.5)]
