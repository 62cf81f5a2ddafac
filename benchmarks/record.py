"""A benchmark's record: what was run, on which machine, every raw row, and the claims computed from the rows."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

RECORDS = Path(__file__).resolve().parent / "records"


def write_record(
    name: str, rows: Sequence[dict[str, Any]], claims: Sequence[dict[str, Any]], load: float
) -> Path:
    """Writes `records/<name>.json`. `load` is the machine's load average before the benchmark started.

    A row is one raw measurement with its seed. A claim is {what, value, goal, holds}, holds or not.
    """
    script = Path(sys.argv[0]).resolve().relative_to(RECORDS.parents[1])
    record = {
        "name": name,
        "date": datetime.date.today().isoformat(),
        "commit": _git("rev-parse", "HEAD") + ("-modified" if _git("status", "--porcelain", "src") else ""),
        "command": "python " + " ".join([str(script), *sys.argv[1:]]),
        "machine": machine(load),
        "rows": list(rows),
        "claims": list(claims),
    }
    path = RECORDS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    return path


def machine(load: float) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load_at_start": round(load, 2),
    }


def claim(what: str, value: Any, goal: str, holds: bool) -> dict[str, Any]:
    return {"what": what, "value": value, "goal": goal, "holds": bool(holds)}


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
