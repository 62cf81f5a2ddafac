"""Peers in virtual environments of their own, made on first use and kept under `benchmarks/.venvs`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

TORCH = "torch==2.13.0"
"""One torch on every side."""
FOLDER = Path(__file__).resolve().parents[1] / ".venvs"


def python_of(peer: str, *also: str) -> Path:
    """The interpreter of an environment that holds the peer, such as `trl==1.16.0`, and what it needs `also`."""
    folder = FOLDER / peer.replace("==", "-")
    done = folder / "installed"
    if not done.exists():
        print(f"installing {peer} into {folder}, once", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        command = [folder / "bin" / "pip", "install", "--quiet", TORCH, peer, *also]
        subprocess.run(command, check=True)
        done.touch()
    return folder / "bin" / "python"
