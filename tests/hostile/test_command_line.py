"""Words and flags that no command takes, and runs that are not there."""

import pytest

from taut.cli import FAILED, WRONG_INPUT

ROWS = {
    "no command": ("trian settings.yaml", "'trian'", "did you mean train"),
    "nothing like a command": ("¡olé!", "'¡olé!'", "taut --help"),
    "a file that is not there": ("train nothing.yaml", "nothing.yaml", "does not exist"),
    "a file of another kind": ("train sums.jsonl", "sums.jsonl", "set twice|YAML|section"),
    "a folder": ("train model", "model", "is a folder"),
    "two files": ("train settings.yaml settings.yaml", "one config file", "not 2"),
    "a flag without a value": ("train settings.yaml --run.steps", "--run.steps", "--section.key value"),
    "a flag before a flag": ("train settings.yaml --run.steps --quiet", "--run.steps", "--section.key value"),
    "a flag with nothing behind =": ("train settings.yaml --run.steps=", "run.steps = null", "integer"),
    "a flag twice": ("train settings.yaml --run.steps 1 --run.steps 2", "--run.steps", "twice"),
    "a flag twice, in two spellings": (
        "train settings.yaml --run.max_new 1 --sampling.max_new_tokens 2", "run.max_new", "max_new_tokens"),
    "a flag misspelt": ("train settings.yaml --algorithm.epoch 2", "algorithm.epoch", "algorithm.epochs"),
    "a section": ("train settings.yaml --algorithm 2", "algorithm is a section", "algorithm.preset"),
    "a bare flag": ("train settings.yaml --", "--", "no value|unknown"),
    "a flag of one dash": ("train settings.yaml -q", "'?settings.yaml -q|-q", "one config file|--quiet"),
    "a negative number": ("train settings.yaml --run.steps -3", "run.steps = -3", "greater than or equal to 1"),
    "an exponent for a count": ("train settings.yaml --run.steps 1e2", "run.steps = 100.0", "integer"),
    "nan": ("train settings.yaml --optimizer.learning_rate .nan", "learning_rate = nan", "finite"),
    "nan, as a word": ("train settings.yaml --optimizer.learning_rate NaN", "learning_rate = NaN", "number"),
    "a huge integer": ("train settings.yaml --run.steps " + "9" * 5000, "run.steps = 9{100}\\.", "integer"),
    "an open bracket": ("train settings.yaml --run.steps [1", r"run.steps = \[1", "integer"),
    "brackets as deep as a stack": ("train settings.yaml --run.steps " + "[" * 5000, r"run.steps = \[+", "integer"),
    "markup": ("train settings.yaml --run.device [red]latvec[0]", r"= \[red\]latvec\[0\]:", "'cuda'"),
    "control characters": ("train settings.yaml --run.device \x1b[2J", r"= \\x1b\[2J:", "'cuda'"),
    "a value of 10 MB": ("train settings.yaml --run.device " + "x" * 10**7, r"= x{100}\.\.\.:", "'cuda'"),
    "a key of 10 KB": (f"train settings.yaml --{'x' * 10**4} 1", "unknown key x+", "taut train --help"),
    "sweep over nothing": ("sweep settings.yaml", "name the values", "run.seed=0,1"),
    "sweep over a word": ("sweep settings.yaml run.seed", "'run.seed'", "section.key=value"),
    "sweep over an unknown key": ("sweep settings.yaml run.sead=1,2", "run.sead", "run.seed"),
    "sweep over the same value": ("sweep settings.yaml run.seed=1,1", "same name", "each value once"),
    "sweep over no value": ("sweep settings.yaml run.seed=", "'run.seed='", "section.key=value"),
    "sweep with no jobs": ("sweep settings.yaml run.seed=1 --jobs 0", "--jobs", "from 1"),
    "sample nothing": ("sample first --prompt", "--prompt", "no value"),
    "sample an empty text": ("sample first --prompt ''", "--prompt, row 1", "at least one token"),
    "sample what the vocabulary lacks": ("sample first --prompt 🙂", "--prompt, row 1", "cannot encode"),
    "no replies": ("sample first --prompt 1+1= --replies 0", "--replies", "from 1"),
    "eval of no run": ("eval frist", "'frist'", "'first'"),
    "eval with no held-out prompts": ("eval first", "held-out", "data.eval_path"),
    "show without a run": ("show", "RUN", "taut show --help"),
    "show of no run": ("show nothing", "'nothing'", "taut runs"),
    "show of two runs": ("show first first", "'first'", "taut show --help"),
    "show of an unknown flag": ("show first --stepp 1", "--stepp", "--step"),
    "show of a step that is not there": ("show first --step 9", "step 9", "kept: 1"),
    "show of a step before the first": ("show first --step -2", "step -2", "kept: 1"),
    "show of a step that is no number": ("show first --step two", "--step = two", "integer"),
    "show of an optimiser step that is not there": ("show first --optimizer-step 9", "no 9", "from 0"),
    "show of a colour that is none": ("show first --color blue", "--color = blue", "'ratio'"),
    "show of a folder that is no run": ("show model", "model", "taut runs"),
    "compare of nothing": ("compare", "runs", "taut runs"),
    "compare with a run that is not there": ("compare first secnd", "'secnd'", "taut runs"),
    "plot of another kind": ("compare first --plot plot.xyz", "plot.xyz", "svg"),
    "plot into a folder": ("compare first --plot model", "model", "svg"),
    "export over a folder": ("export first model", "'model' exists", "another place"),
    "export over a file": ("export first sums.jsonl", "'sums.jsonl' exists", "another place"),
    "export of a format that is none": ("export first out --format xlsx", "--format = xlsx", "'parquet'"),
    "a run that exists": ("train settings.yaml --run.name first", "'first' exists", "another name"),
    "resume of no run": ("train --resume nothing", "nothing", "taut runs|no run"),
}  # fmt: skip
BEYOND = {
    "plot into a place that is not there": (
        "compare first --plot none/plot.svg",
        "none",
        "name a place that there is",
    ),
    "export beneath a file": ("export first sums.jsonl/out", "sums.jsonl", "name a folder, not a file"),
    "export beneath a device": ("export first /dev/null/out", "/dev/null", "name a folder, not a file"),
    "export under a name too long": (f"export first {'x' * 300}", "x{40}", "choose a shorter name"),
}
"""What the operating system refuses."""


@pytest.mark.parametrize(("line", "thing", "fix"), ROWS.values(), ids=ROWS)
def test_a_bad_command_is_refused(refused, line, thing, fix):
    refused([word.strip("'") for word in line.split(" ")], thing, fix, WRONG_INPUT)


@pytest.mark.parametrize(("line", "thing", "fix"), BEYOND.values(), ids=BEYOND)
def test_what_the_system_refuses_has_a_remedy(refused, line, thing, fix):
    refused(line.split(" "), thing, fix, FAILED)
