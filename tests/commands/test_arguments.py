"""Command lines taken apart."""

import pytest

from taut.commands.arguments import config_of, one_word, parse_axes, take_apart, take_count
from taut.config import Config


def test_every_kind_in_any_order():
    taken = take_apart(
        [
            "--json",
            "a.yaml",
            "--run.steps",
            "3",
            "--prompt",
            "12+34=",
            "--run.name=x=y",
            "--prompt",
            "a",
            "b",
        ],
        switches=("json", "quiet"),
        many="prompt",
    )
    assert taken.words == ["a.yaml"]
    assert taken.switches == {"json"}
    assert taken.texts == ["12+34=", "a", "b"]
    assert taken.settings == {"run.steps": 3, "run.name": "x=y"}


def test_a_value_may_be_negative_and_a_word_may_follow_it():
    taken = take_apart(["--run.seed", "-1", "b.yaml"])
    assert taken.settings == {"run.seed": -1}
    assert taken.words == ["b.yaml"]


@pytest.mark.parametrize("arguments", [["--run.steps"], ["--run.steps", "--json"], ["--prompt"]])
def test_a_missing_value_is_named(arguments):
    with pytest.raises(ValueError, match=f"{arguments[0]} has no value"):
        take_apart(arguments, switches=("json",), many="prompt")


def test_a_switch_that_the_command_lacks_is_a_setting():
    with pytest.raises(ValueError, match="--quiet has no value"):
        take_apart(["--quiet"], switches=("json",))


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "true"])
def test_counts(value):
    assert take_count(take_apart([]), "jobs") == 1
    assert take_count(take_apart(["--jobs", "3"]), "jobs") == 3
    with pytest.raises(ValueError, match="--jobs is a whole number from 1"):
        take_count(take_apart(["--jobs", value]), "jobs")


def test_axes():
    axes = parse_axes(["algorithm.epochs=1,4", "algorithm.clip_low=0.2,null", "reward=a.py:f"])
    assert axes == {
        "algorithm.epochs": [1, 4],
        "algorithm.clip_low": [0.2, None],
        "reward": ["a.py:f"],
    }


def test_an_axis_of_lists():
    axes = parse_axes(["optimizer.betas=[0.9,0.95],[0.8, 0.99]", "algorithm.epochs=1,2"])
    assert axes == {"optimizer.betas": [[0.9, 0.95], [0.8, 0.99]], "algorithm.epochs": [1, 2]}
    assert parse_axes(["optimizer.betas=[0.9,0.95]"]) == {"optimizer.betas": [[0.9, 0.95]]}


@pytest.mark.parametrize("word", ["algorithm.epochs", "algorithm.epochs="])
def test_a_word_that_is_no_axis(word):
    with pytest.raises(ValueError, match=r"section\.key=value,value"):
        parse_axes([word])


def test_file_then_flags_then_notes(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text("run: {steps: 3, seed: 5}\nnum_ppo_epochs: 2\n")
    config = config_of(take_apart([str(file), "--run.steps", "4"]), Config)
    assert (config.run.steps, config.run.seed, config.algorithm.epochs) == (4, 5, 2)
    assert "note: num_ppo_epochs is written algorithm.epochs: 2 here" in capsys.readouterr().err


def test_two_files_are_one_too_many():
    with pytest.raises(ValueError, match=r"one config file can be given, not 2: a\.yaml b\.yaml"):
        one_word(["a.yaml", "b.yaml"], "config file")
