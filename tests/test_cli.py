"""The commands as a user types them: what they print, what they leave, and how they end."""

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
import torch

from taut.cli import DONE, FAILED, INTERRUPTED, PLAIN, WITH_SETTINGS, WRONG_INPUT, main
from taut.commands.learn import NO_MODEL
from taut.launch import local, preferences, sft, sweep
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.store import Run
from taut.tasks.adder import CHARACTERS, END
from taut.training.non_finite import NonFiniteError


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with a tiny random model, data, and two runs of 2 steps: `first`, and `second` with 2 epochs."""
    folder = tmp_path_factory.mktemp("cli")
    model = tiny_gpt2(len(CHARACTERS), CHARACTERS.index(END), seed=0, width=16, heads=2)
    save_model(model, character_tokenizer(CHARACTERS, END), folder / "model")
    rows = [
        {"prompt": f"{a}+{b}=", "answer": str(a + b), "completion": str(a + b)}
        for a in range(3)
        for b in range(3)
    ]
    (folder / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "small.yaml").write_text(SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "small.yaml", "--run.name", "first", "--quiet"]) == DONE
        assert (
            main(["train", "small.yaml", "--run.name", "second", "--algorithm.epochs", "2", "--quiet"])
            == DONE
        )
    return folder


@pytest.fixture
def taut(trained, monkeypatch, capsys):
    """Runs a command beside the trained runs: exit code, standard output, standard error."""
    monkeypatch.chdir(trained)

    def run(*arguments):
        capsys.readouterr()
        code = main(arguments)
        return code, *capsys.readouterr()

    return run


SMALL = """
run: {steps: 2, threads: 1}
model: {path: model}
data: {path: sums.jsonl, eval_path: sums.jsonl}
sampling: {max_new_tokens: 4}
algorithm: {preset: ppo-batch-mean, prompts_per_step: 4, replies_per_prompt: 2}
optimizer: {learning_rate: 0.01}
"""
HELP = [
    ["--help"],
    ["train", "--help"],
    ["sft", "--help"],
    ["reward-model", "--help"],
    ["dpo", "--help"],
    ["sweep", "--help"],
    ["show", "--help"],
    ["runs", "-h"],
]
WRONG = [
    (["trian"], "did you mean train"),
    (["train", "--algorithm.epoch", "3"], "did you mean algorithm.epochs"),
    (["train", "--algorithm.minibatches", "7"], "does not divide"),
    (["train", "nothing.yaml"], "nothing.yaml does not exist"),
    (["train", "a.yaml", "b.yaml"], "one config file can be given"),
    (["train", "--run.steps"], "has no value"),
    (["sweep"], "name the values to combine"),
    (["sweep", "small.yaml", "--run.seed", "0"], "name the values to combine"),
    (["sweep", "run.seed"], "section.key=value"),
    (["sweep", "run.seed=0", "--jobs", "0"], "--jobs is a whole number"),
    (["train", "--model.path", "/nonexistent"], "/nonexistent: there is no such folder"),
    (["show", "nothing"], "no run 'nothing'"),
    (["compare"], "name the runs"),
    (["sample", "--prompt"], "--prompt has no value"),
]


def in_a_process(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "taut.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("arguments", [*HELP, *(wrong for wrong, _ in WRONG[:8])], ids=" ".join)
def test_help_and_wrong_input_never_wait_for_torch(arguments):
    code = f"""
import sys
from taut.cli import main
code = main({arguments!r})
assert "torch" not in sys.modules, "torch was imported"
assert "transformers" not in sys.modules
sys.exit(code)
"""
    expected = DONE if arguments in HELP else WRONG_INPUT
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == expected
    )


def test_help_lists_every_command_on_one_line(taut):
    code, page, _ = taut("--help")
    assert code == DONE
    for command in [*WITH_SETTINGS, *PLAIN]:
        assert sum(line.split()[:1] == [command] for line in page.splitlines()) == 1
    assert taut() == (code, page, "")


def test_help_of_train_holds_every_setting_and_preset(taut):
    from taut.config import PRESETS, Config, leaf_fields

    code, page, _ = taut("train", "--help")
    assert code == DONE
    for key, _ in leaf_fields(Config):
        assert f"--{key} " in page
    for preset in PRESETS:
        assert any(line.split()[:1] == [preset] for line in page.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_wrong_input_is_named_in_few_lines(taut, arguments, message):
    code, out, err = taut(*arguments)
    assert code == WRONG_INPUT
    assert message in err
    assert not out
    assert len(err.splitlines()) < 10
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "taut show needs RUN; taut show --help says more"),
        (["export"], "taut export needs RUN and PLACE; taut export --help says more"),
        (["export", "first"], "taut export needs PLACE; taut export --help says more"),
        (["show", "first", "second"], "taut show does not take 'second'; taut show --help says more"),
        (["show", "first", "--stp", "1"], "taut show has no --stp: did you mean --step?"),
        (["show", "first", "--optimizer_stp", "1"], "taut show has no --optimizer_stp: did you mean --optimizer-step?"),
        (["runs", "--zzz", "1"], "taut runs has no --zzz: taut runs --help says more"),
        (["show", "first", "--step"], "--step has no value; keys are set as --section.key value"),
        (["show", "first", "--step", "x"], "--step = x: input should be a valid integer"),
        (["show", "first", "--step", "1.5"], "--step = 1.5: input should be a valid integer"),
        (["export", "first", "o", "--format", "xls"], "--format = xls: input should be 'jsonl', 'csv', 'parquet',"),
        (["show", "first", "--step", "9", "--json"], "run 'first' holds no replies of step 9; steps kept: 1-2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_wrong_arguments_of_plain_commands_are_one_line(taut, arguments, message):
    code, out, err = taut(*arguments)
    assert code == WRONG_INPUT
    assert not out
    assert err.startswith(f"taut: {message}")
    assert len(err.splitlines()) == 1


def test_a_folder_of_digits_is_a_folder(taut):
    assert taut("runs", "--root", "2024") == (DONE, "no runs in 2024; taut train makes one\n", "")


def test_help_of_plain_commands_names_their_arguments(taut):
    assert taut("show", "--help")[1].startswith("usage: taut show [-h] [OPTIONS] RUN\n")
    assert taut("export", "--help")[1].startswith("usage: taut export [-h] [OPTIONS] RUN PLACE\n")
    assert "--plot STR " in taut("compare", "--help")[1]


def test_help_of_train_is_written_as_a_config_is(taut):
    page = taut("train", "--help")[1]
    assert page.count("usage: ") == 1
    lines = [line.strip() for line in page.splitlines()]
    assert "--run.name null" in lines
    assert "--algorithm.dynamic_sampling 0" in lines
    assert "--data.as_chat false" in lines
    assert "None" not in page


def test_a_run_is_never_written_into(taut):
    code, _, err = taut("train", "small.yaml", "--run.name", "first")
    assert code == WRONG_INPUT
    assert "run 'first' exists" in err


def test_debug_shows_the_traceback(taut):
    _, _, err = taut("show", "nothing", "--debug")
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("taut: no run 'nothing'")


@pytest.mark.parametrize(
    ("error", "code"),
    [(NonFiniteError("the loss is nan"), FAILED), (OSError(28, "No space left on device"), FAILED),
     (RuntimeError("CUDA out of memory\n" * 30), FAILED), (ImportError("pip install 'taut[plot]'"), WRONG_INPUT),
     (KeyboardInterrupt(), INTERRUPTED)],
)  # fmt: skip
def test_how_a_run_ends(taut, monkeypatch, error, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(local, "train_ppo", fail)
    ended, out, err = taut("train", "small.yaml", "--run.name", f"ends-with-{type(error).__name__}")
    assert ended == code
    assert (str(error).splitlines() or ["interrupted"])[0] in err
    assert len(err.splitlines()) < 10
    assert "Traceback" not in out + err


def test_quiet_and_lines_and_json(taut):
    assert taut("train", "small.yaml", "--run.name", "quiet", "--quiet") == (DONE, "", "")
    code, out, err = taut("train", "small.yaml", "--run.name", "lines", "--num_ppo_epochs", "2")
    assert code == DONE
    assert [line.split()[1] for line in out.splitlines() if line.startswith("step")] == ["0/2", "1/2", "2/2"]
    assert "taut show lines" in out
    assert "note: num_ppo_epochs is written algorithm.epochs: 2 here" in err
    code, out, _ = taut("train", "small.yaml", "--run.name", "json", "--json")
    *steps, summary = (json.loads(line) for line in out.splitlines())
    assert [step["step"] for step in steps] == [0, 1, 2]
    assert summary["directory"] == os.path.join("runs", "json")
    assert summary["status"] == "finished"


@pytest.mark.parametrize("command", ["reward-model", "dpo"])
def test_learning_from_pairs(taut, tmp_path, command):
    pairs = [{"prompt": f"{a}+1=", "chosen": str(a + 1), "rejected": "9"} for a in range(6)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    section, data = command.replace("-", "_"), str(tmp_path / "pairs.jsonl")
    settings = [
        "--model.path",
        "model",
        "--data.path",
        data,
        "--run.steps",
        "4",
        "--optimizer.learning_rate",
        "0.01",
    ]
    held_out = ["--data.eval_path", data]
    code, out, _ = taut(command, *settings, *held_out, f"--{section}.output", str(tmp_path / "lines"))
    assert code == DONE
    assert [line.split()[1] for line in out.splitlines() if line.startswith("step")] == [
        "1/4",
        "2/4",
        "3/4",
        "4/4",
    ]
    assert "eval/accuracy" in out
    assert f"saved in {tmp_path / 'lines'}" in out
    code, out, _ = taut(command, *settings, f"--{section}.output", str(tmp_path / "json"), "--json")
    assert code == DONE
    assert set(json.loads(out)) == {"folder", "train/accuracy", "train/margin", "train/calibration_error"}
    code, out, err = taut(command, *settings, f"--{section}.output", str(tmp_path / "json"))
    assert code == WRONG_INPUT
    assert f"{section}.output {tmp_path / 'json'} exists" in err
    assert taut(command, *settings, f"--{section}.output", str(tmp_path / "quiet"), "--quiet") == (
        DONE,
        "",
        "",
    )


def test_a_run_without_a_name_gets_one(taut, tmp_path):
    code, out, _ = taut("train", "small.yaml", "--run.root", str(tmp_path), "--json")
    assert code == DONE
    [directory] = tmp_path.iterdir()
    assert (
        json.loads(out.splitlines()[-1])["run"] == directory.name == Run.open(directory).config["run"]["name"]
    )


def test_runs(taut):
    code, out, _ = taut("runs")
    assert code == DONE
    assert "first" in out
    code, out, _ = taut("runs", "--json")
    rows = {row["run"]: row for row in map(json.loads, out.splitlines())}
    assert rows["first"]["steps"] == 2
    shown = json.loads(taut("show", "first", "--json")[1])
    compared = json.loads(taut("compare", "first", "--json")[1])["results"][0]
    assert rows["first"] == compared == {key: shown[key] for key in compared}
    assert taut("runs", "--root", "nowhere") == (DONE, "no runs in nowhere; taut train makes one\n", "")


def test_show(taut):
    code, out, _ = taut("show", "second", "--step", "1", "--optimizer-step", "1", "--color", "clip")
    assert code == DONE
    assert "optimiser step 1 of 0 to 1, epoch 2, coloured by clip" in out
    code, out, _ = taut("show", "runs/second", "--json")
    shown = json.loads(out)["replies_of"]
    assert shown["step"] == 2
    assert all(token["text"] in CHARACTERS for reply in shown["replies"] for token in reply["tokens"])


def test_compare(taut, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.svg"
    code, out, _ = taut("compare", "first", "second", "--plot", str(plot))
    assert code == DONE
    assert "algorithm.epochs" in out
    assert "run.name" not in out
    assert "run.root" not in out
    assert plot.read_text().startswith("<?xml")
    code, out, _ = taut("compare", "first", "second", "--json")
    assert json.loads(out)["differences"] == {"algorithm.epochs": [4, 2]}


def test_export(taut, tmp_path):
    assert taut("export", "first", str(tmp_path / "out"))[0] == DONE
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "scalars.jsonl",
        "replies.jsonl",
        "tokens.jsonl",
    }
    assert taut("export", "first", str(tmp_path / "out"))[0] == WRONG_INPUT


def test_eval_scores_the_run_s_newest_checkpoint(taut):
    code, out, _ = taut("eval", "first", "--json")
    assert code == DONE
    run = Run.open("runs/first")
    assert json.loads(out) == {
        name: run.last(name) for name in ("eval/accuracy", "eval/greedy", "eval/failed")
    }
    assert taut("eval", "small.yaml")[1].startswith("eval/accuracy")


def test_sample(taut):
    code, out, _ = taut("sample", "first", "--prompt", "1+1=", "2+2=", "--replies", "3", "--json")
    assert code == DONE
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["prompt"] for row in rows] == ["1+1="] * 3 + ["2+2="] * 3
    ended = {"stop": "by itself", "length": "cut"}[rows[0]["finish_reason"]]
    [line] = [line for line in taut("sample", "first", "--prompt", "1+1=")[1].splitlines() if "1+1=" in line]
    assert line.rstrip().endswith(ended)


def test_five_prompts_and_a_batch_of_eight(taut):
    few = ("train", "small.yaml", "--data.limit", "5", "--run.name", "few")
    code, out, err = taut(*few, "--algorithm.prompts_per_step", "8")
    assert (code, out) == (WRONG_INPUT, "")
    assert "sums.jsonl has 5 prompts and algorithm.prompts_per_step is 8: set it to 5 or less" in err
    assert taut(*few, "--algorithm.prompts_per_step", "5", "--quiet")[0] == DONE


def test_several_files_on_the_command_line(taut):
    paths = ("--data.path", "[sums.jsonl, sums.jsonl]", "--data.weights", "[1, 3]")
    assert taut("train", "small.yaml", *paths, "--run.name", "both", "--quiet")[0] == DONE
    assert Run.open("runs/both").config["data"]["weights"] == [1.0, 3.0]


def test_sft(taut, tmp_path):
    output = tmp_path / "sft"
    settings = [
        "--model.path",
        "model",
        "--data.path",
        "sums.jsonl",
        "--run.steps",
        "3",
        "--sft.output",
        str(output),
    ]
    code, out, _ = taut("sft", *settings)
    assert code == DONE
    assert "step 3/3  loss" in out
    assert (output / "config.json").is_file()
    assert taut("sft", *settings, "--quiet")[0] == WRONG_INPUT


def test_sweep_ends_with_a_table(taut):
    code, out, _ = taut("sweep", "small.yaml", "algorithm.epochs=1,2", "run.seed=0,1", "--run.name", "try")
    assert code == DONE
    assert "4/4  try_epochs=2_seed=1" in out
    table = out.splitlines()[-4:]
    assert [line.split()[:2] for line in table if line.strip()[:1].isdigit()] == [["1", "2"], ["2", "2"]]
    code, out, _ = taut("sweep", "small.yaml", "run.seed=0,1", "--run.name", "json", "--json")
    [row] = map(json.loads, out.splitlines())
    assert row["runs"] == 2
    assert len(row["reward/mean"]) == 2


def test_ctrl_c_ends_with_130_and_keeps_what_was_done(trained, monkeypatch):
    monkeypatch.chdir(trained)
    process = in_a_process("train", "small.yaml", "--run.name", "stopped", "--run.steps", "100000", "--json")
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode == INTERRUPTED
    run = Run.open("runs/stopped")
    assert run.status == "interrupted"
    assert run.step_count >= 2
    steps = run.step_count
    assert err == (
        f"taut: interrupted; its {steps} finished steps are kept in {run.directory}\n"
        f"      taut train --resume stopped goes on after step {steps}\n"
    )
    more = in_a_process("train", "--resume", "stopped", "--run.steps", str(steps + 2), "--json")
    out, err = more.communicate(timeout=240)
    *rows, summary = map(json.loads, out.splitlines())
    assert [row["step"] for row in rows] == [steps + 1, steps + 2]
    assert (more.returncode, summary["steps"], err) == (DONE, steps + 2, "")


def test_sigterm_is_an_interrupt_and_leaves_no_process(trained, monkeypatch):
    monkeypatch.chdir(trained)
    (trained / "rewards.py").write_text(
        "import os\n"
        "def score(completions, **_):\n"
        "    open('pid', 'w').write(str(os.getpid()))\n"
        "    return [1.0] * len(completions)\n"
    )
    settings = ("--run.name", "preempted", "--run.steps", "100000", "--reward", "rewards.py:score", "--json")
    process = in_a_process("train", "small.yaml", *settings)
    process.stdout.readline()
    process.terminate()
    _, err = process.communicate(timeout=240)
    assert process.returncode == INTERRUPTED, err
    assert Run.open("runs/preempted").status == "interrupted"
    with pytest.raises(ProcessLookupError):
        os.kill(int((trained / "pid").read_text()), 0)


def test_fork_and_resume_from_the_command_line(taut):
    assert taut("fork", "first", "--step", "2", "--run.steps", "3", "--run.name", "child", "--quiet") == (
        DONE,
        "",
        "",
    )
    assert Run.open("runs/child").facts["parent"] == "first"
    for arguments, message in [
        (["fork", "first"], "taut fork RUN --step 20"),
        (["fork", "first", "--step", "1"], "has no checkpoint of step 1; it has those of steps: 2"),
        (["train", "--resume", "first"], "has taken all its 2 steps: --run.steps 4"),
        (
            ["train", "--resume", "first", "--algorithm.epochs", "2"],
            "algorithm.epochs would change: taut fork first",
        ),
        (["train", "small.yaml", "--resume", "first"], "leave out small.yaml"),
    ]:
        code, out, err = taut(*arguments)
        assert (code, out) == (WRONG_INPUT, "")
        assert message in err


@pytest.mark.parametrize("command", ["sft", "dpo", "sweep"])
def test_every_command_that_trains_says_what_an_interrupt_leaves(taut, monkeypatch, command):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sft, "fine_tune_model", interrupt)
    monkeypatch.setattr(preferences, "train_dpo", interrupt)
    monkeypatch.setattr(sweep, "run_sweep", interrupt)
    kept = "0 of 2 runs have ended; taut runs --root runs lists them" if command == "sweep" else NO_MODEL
    code, _, err = taut(command, *(["run.seed=0,1"] if command == "sweep" else []))
    assert (code, err) == (INTERRUPTED, f"taut: interrupted; {kept}\n")


def test_ctrl_c_before_the_first_step_promises_nothing(taut, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    message = "taut: interrupted before the first step was finished\n"
    monkeypatch.setattr(local, "train_ppo", interrupt)
    assert taut("train", "small.yaml", "--run.name", "no-step", "--json") == (INTERRUPTED, "", message)
    monkeypatch.setattr(local, "load_prompts", interrupt)
    assert taut("train", "small.yaml", "--run.name", "no-run", "--json") == (INTERRUPTED, "", message)
    assert not os.path.exists("runs/no-run")


def test_a_reader_that_leaves_early_is_no_traceback(trained, monkeypatch):
    monkeypatch.chdir(trained)
    process = in_a_process("train", "small.yaml", "--run.name", "piped", "--run.steps", "100000", "--json")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=240) == FAILED
    assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "command", ["--help", "train --help", "show --help", "runs", "show first", "compare first"]
)
def test_head(trained, monkeypatch, command):
    """Whatever a command prints, however little, to a reader that is gone."""
    monkeypatch.chdir(trained)
    line = f"{sys.executable} -m taut.cli {command}"
    ended = subprocess.run(
        ["bash", "-c", f"{line} | true"], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.stderr == ""


def test_version(taut):
    assert taut("--version") == (DONE, f"taut {version('taut')}\n", "")


def test_a_console_without_utf_8(trained, monkeypatch):
    monkeypatch.chdir(trained)
    for command in (["show", "first"], ["train", "--help"]):
        process = in_a_process(*command, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        out, err = process.communicate(timeout=240)
        assert process.returncode == DONE, err
        assert out.isascii()


def test_the_world_trains_from_nothing(world_cache, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    seed = ["--run.seed", "3"]  # no other test makes its model
    code = main(["train", "--run.steps", "2", "--run.name", "world", "--eval.limit", "20", *seed])
    out, err = capsys.readouterr()
    torch.set_num_threads(1)
    assert code == DONE, err
    assert not err
    assert out.startswith("fine-tuning the world's model, once for seed 3\n")
    assert main(["show", "world"]) == DONE
    assert "not held" in capsys.readouterr().out
