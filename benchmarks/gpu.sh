#!/usr/bin/env bash
# Sampler, loss step, learner and a whole PPO step on one GPU, with a random model of 0.5 billion weights; under
# eight minutes. Prints JSON, and writes it to the file that is named:
#   bash benchmarks/gpu.sh [gpu.json]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
[ -x "$python" ] || python=python3
export PYTHONPATH="src:benchmarks${PYTHONPATH:+:$PYTHONPATH}"
timeout 480 "$python" benchmarks/gpu_step.py --shape "${SHAPE:-half-billion}" --output "${1:-gpu.json}"
