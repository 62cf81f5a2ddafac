"""The architecture's rules, read from the source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "taut"
FILES = sorted(SOURCE.rglob("*.py"))

LAYERS = {
    "types": 0,
    "background": 0,
    "config": 0,
    "objective": 1,
    "trackers": 1,
    "models": 2,
    "store": 2,
    "tasks": 3,
    "rollout": 4,
    "training": 5,
    "checks": 6,
    "launch": 7,
    "web": 8,
    "terminal": 8,
    "commands": 9,
    "cli": 10,
}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that a file imports or looks for, anywhere in it, but for what only the type checker reads."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            # `from taut import store` and `from taut.store import runs` import modules, too.
            yield from [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "find_spec")):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))
        waiting += ast.iter_child_nodes(node)


def own(names: Iterator[str]) -> set[str]:
    """The folders or files directly in the package that these modules are of."""
    return {name.split(".")[1] for name in names if name.startswith("taut.")} & set(LAYERS)


def test_the_reader_sees_every_kind_of_import():
    tree = ast.parse(
        "import taut.store.run\n"
        "from taut import launch\n"
        "def f():\n    from taut.config import Config\n"
        "def g():\n    import_module('taut.models.load'), find_spec('gguf')\n"
        "if TYPE_CHECKING:\n    from taut.web import pages\n"
    )
    assert own(imported(tree)) == {"store", "launch", "config", "models"}
    assert "gguf" in set(imported(tree))


def test_every_file_has_a_layer():
    assert {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES} - {"__init__"} <= set(
        LAYERS
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_lower_layers_or_its_own_folder(path):
    folder = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    top = max(LAYERS.values()) + 1  # the package itself hands everything out
    imports = own(imported(parse(path)))
    assert {name for name in imports if name != folder and LAYERS[name] >= LAYERS.get(folder, top)} == set()


def test_the_objective_imports_torch_and_nothing_of_ours():
    allowed = {*sys.stdlib_module_names, "torch"}
    for path in (SOURCE / "objective").glob("*.py"):
        others = {name for name in imported(parse(path)) if name.partition(".")[0] not in allowed}
        assert {name for name in others if not name.startswith("taut.objective")} == set(), path.name


@pytest.mark.parametrize("package", ["taut.config", "taut.store", "taut.types", "taut.cli", "taut.web.app"])
def test_no_torch_is_imported_even_by_what_is_imported(package):
    code = f"import sys, {package}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_files_are_under_300_lines_and_functions_under_60():
    long = []
    for path in FILES:
        if len(path.read_text(encoding="utf-8").splitlines()) >= 300:
            long.append(path.name)
        for node in ast.walk(parse(path)):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and node.end_lineno - node.lineno >= 60
            ):
                long.append(f"{path.name}:{node.name}")
    assert long == []


@pytest.mark.parametrize(
    "library",
    [
        *("matplotlib", "pyarrow", "tensorboard", "gguf", "datasets", "reasoning_gym", "peft"),
        *("textual", "cloudpickle", "math_verify", "httpx", "verifiers", "wandb", "trackio"),
    ],
)
def test_one_file_alone_names_each_heavy_library(library):
    users = [
        path.name for path in FILES if library in {name.partition(".")[0] for name in imported(parse(path))}
    ]
    assert len(users) == 1, users


def test_every_extra_that_an_error_names_can_be_installed():
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {
        extra for path in FILES for extra in re.findall(r"taut\[(\w+)\]", path.read_text(encoding="utf-8"))
    }
    everything = re.findall(
        r"[\w-]+", "".join(line for line in extras["dev"] if line.startswith("taut["))[5:]
    )
    assert named | set(everything) <= extras.keys()
