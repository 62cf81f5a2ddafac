"""Checkpoint folders: written beside and renamed into place, with a manifest of what is in them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

CHECKPOINTS = "checkpoints"
"""Where in a run's directory they are."""
MANIFEST = "manifest.json"
NECESSARY = ("config.json", "training/learner.pt", "training/loop.json")
"""Files without which nothing goes on from a checkpoint."""
_BESIDE = ".step_*"
"""Folders in the making or in removal; what a killed run left of them is worth nothing."""


def checkpoint_folder(directory: Path, step: int) -> Path:
    return directory / f"step_{step:06d}"


def checkpoint_steps(directory: Path) -> list[int]:
    """The steps that `directory` holds a checkpoint of, in order."""
    numbers = (folder.name.removeprefix("step_") for folder in directory.glob("step_*"))
    return sorted(int(number) for number in numbers if number.isdecimal())


def newest_checkpoint(directory: Path, tell: Callable[[str], None] = lambda note: None) -> Path:
    """The newest that is whole; `tell` hears of each newer one that is not.

    Raises ValueError where there is none.
    """
    passed_over: list[str] = []
    for step in reversed(checkpoint_steps(directory)):
        folder = checkpoint_folder(directory, step)
        problem = damage(folder)
        if problem is None:
            for note in passed_over:
                tell(f"{note}; {folder.name} is taken")
            return folder
        passed_over.append(f"the checkpoint {folder.name} is damaged: {problem}")
    why = f" that is whole: {'; '.join(passed_over)}" if passed_over else ""
    raise ValueError(f"{directory} holds no checkpoint{why}")


def write_checkpoint(
    directory: Path, step: int, write: Callable[[Path], None], accuracy: float | None = None
) -> Path:
    """Makes `step_000040` in `directory` and returns its path; `write` fills the folder it is given.

    `accuracy` is the held-out accuracy at that step, where it was measured. Raises OSError naming the path where the
    disk takes no more; nothing is left of the attempt then.
    """
    folder = checkpoint_folder(directory, step)
    beside = directory / f".{folder.name}.writing"
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        write(beside)
        manifest = {"step": step, "accuracy": accuracy, "files": _checksums(beside)}
        (beside / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        # Else a power cut could keep the name and lose what it names.
        for path in (*beside.rglob("*"), beside):
            _force_to_disk(path)
        beside.rename(folder)
        _force_to_disk(directory)
    except (
        OSError,
        RuntimeError,
        SafetensorError,
    ) as error:  # torch and safetensors each tell it their own way
        free = shutil.disk_usage(directory).free / 1e6
        shutil.rmtree(beside, ignore_errors=True)
        raise OSError(
            f"the checkpoint {folder} could not be written, with {free:.1f} MB free on its disk: {error}"
        ) from error
    return folder


def damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint; None where every file is as its manifest says."""
    manifest = _manifest(folder)
    files = manifest.get("files")
    if not isinstance(files, dict):
        return f"it has no readable {MANIFEST}"
    if missing := [name for name in NECESSARY if name not in files]:
        return f"its {MANIFEST} does not name {missing[0]}"
    if manifest.get("step") != int(folder.name.removeprefix("step_")):
        return f"its {MANIFEST} is that of step {manifest.get('step')}"
    found = _checksums(folder)
    wrong = [name for name, checksum in files.items() if found.get(name) != checksum]
    return f"{wrong[0]} is not as it was written" if wrong else None


def keep_newest_and_best(directory: Path, keep: int) -> None:
    """Removes all but the newest `keep` and, of all there are, the one of the highest held-out accuracy."""
    steps = checkpoint_steps(directory)
    accuracies = {step: _accuracy(checkpoint_folder(directory, step)) for step in steps}
    measured = [step for step in steps if accuracies[step] is not None]
    best = max(measured, key=lambda step: (accuracies[step], step), default=None)
    for step in steps[:-keep]:
        if step != best:
            remove(checkpoint_folder(directory, step))


def remove(folder: Path) -> None:
    """Out of its name first, so that a half-removed one never bears it."""
    aside = folder.rename(folder.with_name(f".{folder.name}.removing"))
    shutil.rmtree(aside)


def clean_up(directory: Path) -> None:
    """Removes what a killed run left in the making or in removal."""
    for folder in directory.glob(_BESIDE):
        shutil.rmtree(folder)


def set_aside(folder: Path) -> Path:
    """Takes a damaged checkpoint's name from it, so that nothing takes it for one."""
    aside = folder.with_name(f"damaged_{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    return folder.rename(aside)


def _accuracy(folder: Path) -> float | None:
    accuracy = _manifest(folder).get("accuracy")
    return accuracy if isinstance(accuracy, int | float) else None


def _manifest(folder: Path) -> dict[str, Any]:
    """Empty where there is none that can be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in the folder but the manifest, by its path within."""
    sums = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / MANIFEST:
            with path.open("rb") as file:
                sums[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
