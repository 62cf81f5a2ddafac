"""Runs and checkpoints that are damaged, of another version, or not what a command can use."""

import json
import os
import shutil
import sqlite3

import pytest

from taut.cli import WRONG_INPUT

STORE = "runs/first/run.db"
CHECKPOINT = "runs/first/checkpoints/step_000001"
FORK, RESUME = "fork first --step 1 --run.steps 2", "train --resume first --run.steps 2"


def nothing():
    pass


def written(path, content):
    def damage():
        with open(path, "wb") as file:
            file.write(content)

    return damage


def cut(path, left):
    def damage():
        with open(path, "r+b") as file:
            file.truncate(int(left * os.path.getsize(path)))

    return damage


def sql(*statements):
    def damage():
        db = sqlite3.connect(STORE)
        for statement in statements:
            db.execute(statement)
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        for name in (f"{STORE}-wal", f"{STORE}-shm"):
            if os.path.exists(name):
                os.remove(name)

    return damage


def without_checkpoints():
    shutil.rmtree("runs/first/checkpoints")


def version(number):
    return sql(f"UPDATE meta SET value = '{number}' WHERE key = 'schema_version'")


def manifest_of_nothing():
    with open(f"{CHECKPOINT}/manifest.json", "w") as file:
        json.dump({"files": {"elsewhere": "0"}}, file)


ROWS = {
    # what is done to the run, the command, the thing, the fix
    "a store that is text": (written(STORE, b"hello" * 999), "show first", "'first'", "restore it or remove it"),
    "a store of no bytes": (written(STORE, b""), "show first", "'first'", "restore it or remove it|Taut"),
    "a store cut in half": (cut(STORE, 0.5), "show first", "first", "restore it or remove it|malformed"),
    "a newer store": (version(99), "show first", "schema 99", "pip install --upgrade"),
    "an older store": (version(1), "show first", "schema 1", "run it again"),
    "a version that is none": (version("null"), "show first", "schema None", "run it again|upgrade"),
    "a table missing": (sql("DROP TABLE updates"), "show first", "runs/first/run.db", "restore it"),
    "meta missing": (sql("DROP TABLE meta"), "show first", "'first'", "restore it or remove it"),
    "meta that is no json": (sql("UPDATE meta SET value = '{'"), "show first", "'first'", "restore it or remove it"),
    "no settings": (lambda: os.remove("runs/first/config.yaml"), "show first", "config.yaml", "restore it"),
    "settings that are none": (written("runs/first/config.yaml", b"{"), "eval first", "config.yaml", "restore it"),
    "settings that are a list": (written("runs/first/config.yaml", b"- 1"), "eval first", "config.yaml", "restore it"),
    "settings of a newer version": (
        written("runs/first/config.yaml", b"run: {warp: 9}\n"), "eval first", "run.warp|warp", "run.name|taut|unknown"),
    "eval without a checkpoint": (without_checkpoints, "eval first", "checkpoints", "no checkpoint"),
    "sample without a checkpoint": (without_checkpoints, "sample first --prompt 1", "checkpoints", "no checkpoint"),
    "fork without a checkpoint": (without_checkpoints, "fork first --step 1", "first", "checkpoint"),
    "fork without a step": (nothing, "fork first", "--step", "taut fork"),
    "fork of a step that is not there": (nothing, "fork first --step 7", "step 7|7", "1"),
    "fork of no run": (nothing, "fork frist --step 1", "'frist'", "'first'"),
    "fork over a run": (nothing, f"{FORK} --run.name first", "'first' exists", "another name"),
    "fork with a key misspelt": (nothing, "fork first --step 1 --run.stepz 2", "run.stepz", "run.steps"),
    "fork of weights cut in half": (
        cut(f"{CHECKPOINT}/model.safetensors", 0.5), FORK, "step_000001", "safetensors"),
    "fork by a manifest of other files": (manifest_of_nothing, FORK, "step_000001", "config.json"),
    "fork without a manifest": (
        lambda: os.remove(f"{CHECKPOINT}/manifest.json"), FORK, "step_000001", "manifest"),
    "resume of no run": (nothing, "train --resume frist", "'frist'", "'first'"),
    "resume of a finished run": (nothing, "train --resume first", "first", "run.steps"),
    "resume with other settings": (nothing, "train --resume first --algorithm.epochs 2", "algorithm.epochs", "fork"),
    "resume with fewer steps": (nothing, "train --resume first --run.steps 0", "run.steps", "greater|more|above"),
    "resume of a newer store": (version(99), RESUME, "schema 99", "pip install --upgrade"),
    "replay of no step": (nothing, "replay first", "step", "taut replay"),
    "replay of a step that is not there": (nothing, "replay first --step 9", "step 9|9", "1"),
    "replay of no run": (nothing, "replay frist --step 1", "'frist'", "'first'"),
    "show of settings without a section": (
        written("runs/first/config.yaml", b"algorithm: x\n"), "show first", "algorithm = 'x'", "restore it"),
    "show of settings without a count": (
        written("runs/first/config.yaml", b"algorithm: {epochs: many}\n"), "show first", "algorithm.epochs = 'many'",
        "restore it"),
    "export of a table missing": (sql("DROP TABLE scalars"), "export first out", "runs/first/run.db", "restore it"),
    "compare with a store that is text": (written(STORE, b"hello" * 999), "compare first", "'first'", "restore it"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "line", "thing", "fix"), ROWS.values(), ids=ROWS)
def test_a_bad_run_is_refused(refused, place, damage, line, thing, fix):
    damage()
    refused(line.split(" "), thing, fix, WRONG_INPUT)
