"""Config files that are none, or that say what cannot be."""

import pytest

CONFLICT = "<<<<<<< HEAD\nrun: {steps: 1}\n=======\nrun: {steps: 2}\n>>>>>>> theirs\n"
ROWS = {
    # no settings at all
    "binary": (b"\x7fELF\x00\x01\x02\xff\xfe", "bad.yaml", "UTF-8|YAML"),
    "utf-16": ("run: {steps: 1}".encode("utf-16"), "bad.yaml", "UTF-8"),
    "a list": ("- run\n- model\n", "bad.yaml", "must map section names to keys"),
    "a word": ("hello\n", "bad.yaml", "must map section names to keys"),
    "a number": ("12\n", "bad.yaml", "must map section names to keys"),
    "two documents": ("run: {steps: 1}\n---\nrun: {steps: 2}\n", "bad.yaml", "single document"),
    "a merge conflict": (CONFLICT, "bad.yaml", "line 2: run"),
    "tabs": ("run:\n\tsteps: 1\n", "bad.yaml", "tab|\\\\t"),
    "an open bracket": ("run: {steps: 1\n", "bad.yaml", "line 2"),
    "an open quote": ("reward: 'exact-match\n", "bad.yaml", "quoted scalar"),
    "json with a comma too many": ('{"run": {"steps": 1,},,}', "bad.yaml", "line 1"),
    "a python object": ("run: !!python/object/apply:os.system ['true']\n", "bad.yaml", "tag"),
    "an unknown tag": ("run: !steps 1\n", "bad.yaml", "tag"),
    "an anchor that is not there": ("run: *shared\n", "bad.yaml", "alias"),
    "an anchor inside itself": ("run: &a {steps: *a}\n", "bad.yaml", "anchor inside itself"),
    "an anchor among others": ("x: &a {steps: 1}\nrun: *a\n", "unknown key x.steps", "run.steps"),
    "a billion laughs": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{y}: &{y} [{','.join([f'*{x}'] * 9)}]\n" for x, y in zip("abcdefgh", "bcdefghi", strict=True)),
        "unknown key a|bad.yaml", "taut train --help|anchor",
    ),
    "a key that is a list": ("? [run, steps]\n: 1\n", "bad.yaml|run", "key"),
    "a key that is null": ("null: 1\n", "null", "taut train --help"),
    "a key that is a number": ("1: {2: 3}\n", "1.2", "taut train --help"),
    "deeper than any setting": ("run: " + "{a: " * 40 + "1" + "}" * 40, "run.a", "run|taut train --help"),
    "as deep as a stack": ("run: " + "{a: " * 2000 + "1" + "}" * 2000, "bad.yaml nests too deeply", "section.key"),
    "a key set twice": ("run: {steps: 1}\nrun: {seed: 1}\n", "run is set twice", "line 2"),
    "a key set twice inside": ("run: {steps: 1, steps: 2}\n", "steps is set twice", "line 1"),
    # sections and keys
    "a key misspelt": ("algorithm: {epoch: 1}\n", "algorithm.epoch", "algorithm.epochs"),
    "a section misspelt": ("algoritm: {epochs: 1}\n", "algoritm.epochs", "algorithm.epochs"),
    "a key of another section": ("run: {epochs: 1}\n", "run.epochs", "algorithm.epochs"),
    "a section that is a number": ("run: 5\n", "run is a section", "run.name|run.steps"),
    "a section that is a list": ("run: [steps, 1]\n", "run is a section", "run.name|run.steps"),
    "a section that is null": ("run:\n", "run is a section", "run.name|run.steps"),
    "a mapping for a number": ("run: {steps: {a: 1}}\n", "run.steps.a", "run.steps"),
    "a mapping for a text": ("reward: {a: 1}\n", "reward.a", "reward"),
    "dotted and nested": ("run.steps: 1\nrun: {steps: 2}\n", "run.steps", "twice|once"),
    # values
    "a negative count": ("run: {steps: -1}\n", "run.steps = -1", "greater than or equal to 1"),
    "zero steps": ("run: {steps: 0}\n", "run.steps = 0", "greater than or equal to 1"),
    "a negative rate": ("optimizer: {learning_rate: -1e-6}\n", "optimizer.learning_rate = -1e-06", "greater than 0"),
    "nan": ("optimizer: {learning_rate: .nan}\n", "optimizer.learning_rate = nan", "finite|greater than 0"),
    "infinity": ("optimizer: {learning_rate: .inf}\n", "optimizer.learning_rate = inf", "finite"),
    "nan for a share": ("algorithm: {gamma: .nan}\n", "algorithm.gamma = nan", "finite"),
    "nan for a count": ("run: {steps: .nan}\n", "run.steps = nan", "integer"),
    "an infinite cap": ("algorithm: {importance_cap: .inf}\n", "algorithm.importance_cap = inf", "finite"),
    "an infinite dual clip": ("algorithm: {dual_clip: .inf}\n", "algorithm.dual_clip = inf", "finite"),
    "nan, as a text": ("optimizer: {learning_rate: nan}\n", "optimizer.learning_rate = nan", "number"),
    "a huge integer": ("run: {seed: 99999999999999999999999999}\n", "run.seed", "less than 4294967296"),
    "a huge count": ("run: {steps: 99999999999999999999}\n", "run.steps = 9+:", "at most 9223372036854775807"),
    "an integer of 5,000 digits": (f"run: {{steps: {'9' * 5000}}}\n", "bad.yaml", "4300 digits"),
    "a number beyond float": ("optimizer: {learning_rate: 1e400}\n", "optimizer.learning_rate = inf", "finite"),
    "true for a count": ("run: {steps: true}\n", "run.steps = true", "integer"),
    "yes for a number": ("sampling: {temperature: yes}\n", "sampling.temperature = true", "number"),
    "a number for a switch": ("model: {gradient_checkpointing: 1}\n", "model.gradient_checkpointing = 1", "boolean"),
    "a text for a switch": ("model: {trust_remote_code: 'true'}\n", "model.trust_remote_code = true", "boolean"),
    "a fraction for a count": ("run: {steps: 1.5}\n", "run.steps = 1.5", "integer"),
    "a float for a count": ("run: {steps: 1e3}\n", "run.steps = 1000.0", "integer"),
    "a list for a number": ("run: {steps: [1, 2]}\n", r"run.steps = \[1, 2\]", "integer"),
    "a list for a text": ("model: {path: [a, b]}\n", "model.path", "string"),
    "an empty list of paths": ("data: {path: []}\n", "data.path", "at least 1"),
    "numbers among the paths": ("data: {path: [1.5]}\n", "data.path", "string"),
    "a date for a number": ("run: {steps: 2026-13-01}\n", "run.steps = 2026-13-01", "integer"),
    "null for a number": ("run: {steps: null}\n", "run.steps = null", "integer"),
    "a comma for a point": ("sampling: {temperature: '1,5'}\n", "sampling.temperature = 1,5", "number"),
    "a preset that is none": ("algorithm: {preset: pppo}\n", "algorithm.preset = pppo", "'ppo'"),
    "a device that is none": ("run: {device: gpu}\n", "run.device = gpu", "'cuda'"),
    "control characters": ('run: {device: "\\e[31mred\\a"}\n', r"\\x1b\[31mred\\x07", "'cuda'"),
    "right-to-left text": ("run: {device: \u202eupc}\n", r"\\u202eupc", "'cuda'"),
    "markup": ("run: {device: '[red]latvec[0] [/INST]'}\n", r"= \[red\]latvec\[0\] \[/INST\]:", "'cuda'"),
    # settings that contradict each other
    "parts that do not divide": ("algorithm: {minibatches: 7}\n", "minibatches = 7", "set it to"),
    "a name with a slash": ("run: {name: a/b}\n", "'a/b'", "leave out slashes"),
    "an empty name": ("run: {name: ''}\n", "''", "plain folder name"),
    "a name with a null": ('run: {name: "a\\0b"}\n', r"run.name = a\\x00b", "leave it out"),
    "a name of 300 letters": (f"run: {{name: {'a' * 300}}}\n", "a{40}", "255 are the most"),
    "a parent for a name": ("run: {name: ..}\n", "'\\.\\.'", "plain folder name"),
    "a dot for a name": ("run: {name: .}\n", "'\\.'", "plain folder name"),
    "a file for a root": ("run: {root: sums.jsonl}\n", "'sums.jsonl' is a file", "choose another place"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "thing", "fix"), ROWS.values(), ids=ROWS)
def test_a_bad_config_is_refused(refused, place, content, thing, fix):
    file = place / "bad.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    common = ["--model.path", "model", "--data.path", "sums.jsonl"]
    own = [key for key in ("model.path", "data.path") if f"{key.split('.')[0]}: {{path" in str(content)]
    refused(
        ["train", "bad.yaml", *(common[2:] if "model.path" in own else common[:2] if own else common)],
        thing,
        fix,
    )
