"""The documents say what is there."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml

from taut import Config, train
from taut.checks.standing import CHECKS
from taut.config import (
    PRESETS,
    DPOConfig,
    RewardModelConfig,
    SFTConfig,
    check,
    leaf_fields,
    read_yaml,
    resolve,
)
from taut.config.presets import ALIASES
from taut.config.resolve import flatten
from taut.tasks.rewards.function import FunctionScorer
from taut.types import Prompt, Rollout

ROOT = Path(__file__).parents[1]
FAMILIES = {
    "clip/epoch_3": "clip/epoch_2",
    "clip/epoch_4": "clip/epoch_2",
    "clip/outside_epoch_3": "clip/outside_epoch_2",
    "clip/outside_epoch_4": "clip/outside_epoch_2",
    "reward/odd": "reward/NAME",
    "reward/environment": "reward/NAME",
    "reward/environment/length": "reward/NAME/METRIC",
    "reward/odd/failed": "reward/NAME/failed",
    "reward/odd/length": "reward/NAME/METRIC",
}
"""A metric of which there is one an epoch or a function, and one that stands for it in the page."""
REWARDS = """
def odd(prompts, completions, log_metric, **columns):
    log_metric("length", 2.0)
    return [float("nan") if number % 2 else 1.0 for number in range(len(prompts))]

class Twice:
    def reset(self, row):
        self.turns, self.logged = 0, {"length": 1.0}
        return row["prompt"]
    def step(self, reply):
        self.turns += 1
        return ("+" if self.turns == 1 else None), 1.0
"""
BY_SETTING = {
    "kl/ref_k2": {"kl.placement": "reward", "kl.estimator": "k2"},
    "loss/entropy": {"algorithm.entropy_coefficient": 0.01},
    "reward/NAME": {"reward": "REWARDS:odd"},
    "reply/turns": {"environment.path": "REWARDS:Twice"},
    "staleness/mean": {"algorithm.max_staleness": 1},
}
"""Metrics that no preset has, and the settings that bring them."""


def documented() -> set[str]:
    """The names in the first column of the tables."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every metric that two steps of any preset store, and of the settings in `BY_SETTING`."""
    folder = tmp_path_factory.mktemp("documented")
    model = random_model(folder)
    variants: dict[str, dict[str, Any]] = {preset: {"algorithm.preset": preset} for preset in PRESETS}
    small = {
        "run.steps": 2,
        "run.threads": 1,
        "algorithm.prompts_per_step": 2,
        "algorithm.replies_per_prompt": 2,
    }
    (folder / "rewards.py").write_text(REWARDS)
    found: set[str] = set()
    for name, settings in (variants | BY_SETTING).items():
        if name in ("reward/NAME", "reply/turns"):
            file = str(folder / "rewards.py")
            settings = {key: value.replace("REWARDS", file) for key, value in settings.items()}
        place = {"run.root": str(folder / name.replace("/", "-")), "model.path": str(model), "eval.limit": 2}
        config, _ = resolve(small, place, {"sampling.max_new_tokens": 5}, settings)
        found.update(*train(config).scalars())
    return {FAMILIES.get(name, name) for name in found - {"step"}}


def random_model(folder: Path) -> Path:
    from taut.launch.world import untrained_world_policy, world_tokenizer
    from taut.models.save import save_model

    save_model(untrained_world_policy(0).model, world_tokenizer(), folder / "model")
    return folder / "model"


def test_every_metric_is_documented(recorded: set[str]) -> None:
    assert recorded - documented() == set()


def test_every_documented_metric_exists(recorded: set[str]) -> None:
    assert documented() - recorded == set()


def test_the_page_of_settings_is_the_schema() -> None:
    generator = load(ROOT / "docs" / "generate_config.py")
    assert generator.PAGE.read_text(encoding="utf-8") == generator.page(), "python docs/generate_config.py"


def test_the_pages_define_metrics_and_checks_as_the_documents_do() -> None:
    generator = load(ROOT / "docs" / "generate_definitions.py")
    assert generator.MODULE.read_text(encoding="utf-8") == generator.module(), (
        "python docs/generate_definitions.py"
    )
    assert generator.metrics().keys() == documented()
    assert list(generator.checks()) == list(CHECKS)
    assert generator.metrics()["clip/binding"][:3] == ["share that is binding", "share", "token sightings"]


def test_the_worlds_config_is_written_out_whole() -> None:
    written = read_yaml(ROOT / "configs" / "world.yaml")
    config, notes = resolve(written)
    assert config == Config()
    assert list(flatten(written)) == [key for key, _ in leaf_fields(Config)]
    assert notes == []


def test_every_standing_check_has_a_section_and_every_section_a_check() -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == list(CHECKS)


def test_the_table_of_presets_is_whole() -> None:
    page = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| `")}
    for preset, settings in PRESETS.items():
        for key, value in settings.items():
            shown = "null" if value is None else f"{str(value).lower()}" if isinstance(value, bool) else value
            assert f"`{key}: {shown}`" in rows[f"`{preset}`"]


def test_the_tree_in_the_readme_is_the_repository() -> None:
    lines = (
        (ROOT / "README.md")
        .read_text(encoding="utf-8")
        .partition("```text\n")[2]
        .partition("```")[0]
        .splitlines()
    )
    tree: set[str] = set()
    folders: list[str] = []
    for line in lines:
        name, _, meaning = line.strip().partition("  ")
        assert name.endswith("/") or meaning, f"{name} has no line about it"
        folders[(len(line) - len(line.lstrip())) // 2 :] = [name]
        if not name.endswith("/"):
            tree.add("".join(folders))
    assert tree == set(files_of_the_repository())


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("docs/*.md")))
def test_settings_shown_in_a_document_are_accepted(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        check(resolve(yaml.safe_load(block))[0])


@pytest.mark.parametrize("page", ["migrating-from-trl.md", "migrating-from-verl.md"])
def test_what_a_migration_page_calls_ours_is_a_setting(page: str) -> None:
    known = {
        key for kind in (Config, SFTConfig, RewardModelConfig, DPOConfig) for key, _ in leaf_fields(kind)
    }
    sections = {key.partition(".")[0] for key in known}
    rows = [
        line for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines() if line[:2] == "| "
    ]
    ours = [
        name
        for row in rows
        for name in re.findall(r"`([a-z_]+\.[a-z0-9_]+)\b[^`(]*`", row.split("|")[2])
        if name.partition(".")[0] in sections
    ]
    assert len(ours) > 30
    assert [name for name in ours if name not in known] == []


def test_trls_spellings_are_listed_as_they_are_understood() -> None:
    page = (ROOT / "docs" / "migrating-from-trl.md").read_text(encoding="utf-8")
    table = page.partition("## Understood as they are written")[2].partition("## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(ALIASES)


def test_the_readme_lists_every_extra_and_hints_name_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"dev"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = readme.partition("What is optional comes with an extra")[2].partition("An error")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == extras
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {
        name for page in pages for name in re.findall(r"'(\S+\[[\w,]+\])'", page.read_text(encoding="utf-8"))
    }
    assert {name.partition("[")[0] for name in named} == {"taut"}
    assert {extra for name in named for extra in name[5:-1].split(",")} <= extras


def files_of_the_repository() -> list[str]:
    """Source, examples, settings, documents, runners and scripts; not what is empty, data, or made by a run."""
    folders = ("src/taut", "examples", "configs", "docs", "benchmarks", "scripts")
    return [
        str(path.relative_to(ROOT))
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".yaml", ".md", ".sh", ".ipynb")
        and "." not in {part[0] for part in path.parts[1:]}
        if path.name != "__init__.py" or len(path.read_text(encoding="utf-8").splitlines()) > 1
    ]


@pytest.mark.parametrize("page", sorted(path.name for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]))
def test_links_lead_somewhere(page: str) -> None:
    path = next(place / page for place in (ROOT, ROOT / "docs") if (place / page).is_file())
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", path.read_text(encoding="utf-8")):
        if target.startswith(("http:", "https:")):
            continue
        file = path.parent / target if target else path
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
            }


def test_the_reward_functions_of_the_page_work_as_they_stand(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "train(" not in block]
    file = tmp_path / "rewards.py"
    file.write_text("\n".join(blocks), encoding="utf-8")
    replies = [
        Rollout(Prompt(0, "1+1=", (1,), {"answer": "2"}), i, (1,), text, np.zeros(1, np.float32), "stop")
        for i, text in enumerate(("2", "3"))
    ]
    for name, logged in (
        ("score", {"score/share_right": 0.5}),
        ("compute_score", {"compute_score/characters": 1}),
    ):
        scorer = FunctionScorer(name, f"{file}:{name}")
        scorer.check([reply.prompt for reply in replies])
        scores = scorer.score(replies)
        assert [score.reward for score in scores] == [1.0, 0.0]
        assert scores[0].logged == logged
    assert callable(load(file).helpful)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
