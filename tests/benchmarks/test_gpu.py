"""The script for a GPU, on the CPU and at a tiny size."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_part_is_measured(tmp_path):
    output = tmp_path / "gpu.json"
    ended = subprocess.run(
        ["bash", "benchmarks/gpu.sh", str(output)],
        cwd=ROOT,
        env={**os.environ, "SHAPE": "tiny", "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(output.read_text())
    assert found["device"] == "cpu"
    assert found["sampler"]["tokens_per_second_2x2"] > 0
    assert found["loss_step"]["taut_seconds"] > 0
    assert found["learner"]["share_of_gemm"] > 0
    assert (
        found["ppo"]["time_score"] > 0
    )  # values and reference, which the learner without a critic has none of
