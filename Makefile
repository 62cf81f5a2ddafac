# Each target makes .venv where it is missing, installs the tested versions into it, and runs.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
INSTALLED := .venv/.installed

.PHONY: train test lint faults reproduce plan-record bench bench-peers picture screenshots

train: $(INSTALLED) ## Train the built-in world's model with PPO, live in the terminal
	.venv/bin/taut train

test: $(INSTALLED) ## Run the tests on all cores; those that need SmolLM2 skip where it was not fetched
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n auto --dist worksteal

lint: $(INSTALLED) ## Style, formatting and types
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

faults: $(INSTALLED) ## Kill 100 runs at random moments, resume each, and compare with one that was left alone
	.venv/bin/python benchmarks/kill_trials.py

reproduce: $(INSTALLED) ## Repeat the published comparison of epochs and clip ranges over ten seeds
	.venv/bin/python benchmarks/clip_and_epochs.py

plan-record: $(INSTALLED) ## Measure the memory of real steps and hold the plan to it
	.venv/bin/python benchmarks/memory_plan.py

bench: $(INSTALLED) ## A small batch against TRL's GRPOTrainer, the loss step, the sampler; under 15 minutes
	.venv/bin/python benchmarks/trl_grpo.py --only a --no-record
	.venv/bin/python benchmarks/loss_step.py --no-record
	.venv/bin/python benchmarks/sampler_speed.py --pairs 3 --no-record

bench-peers: $(INSTALLED) ## Every benchmark that runs on a CPU, with its record: two hours
	.venv/bin/python benchmarks/trl_grpo.py
	.venv/bin/python benchmarks/trl_ppo.py
	.venv/bin/python benchmarks/loss_step.py --liger
	.venv/bin/python benchmarks/sampler_speed.py
	.venv/bin/python benchmarks/growth.py

picture: $(INSTALLED) ## Draw the README's picture from three runs
	rm -rf runs/picture
	for epochs in 1 4 8; do \
		.venv/bin/taut train --quiet --run.root runs/picture --run.name "epochs $$epochs" --run.seed 100 \
			--algorithm.epochs $$epochs || exit 1; \
	done
	mkdir -p docs/images
	.venv/bin/taut compare --root runs/picture 'epochs 1' 'epochs 4' 'epochs 8' --plot docs/images/run.svg

screenshots: $(INSTALLED) ## Photograph the pages for docs/web.md, over runs made for it
	rm -rf runs/screenshots
	for epochs in 1 4 8; do \
		.venv/bin/taut train --quiet --run.root runs/screenshots --run.name "epochs-$$epochs" \
			--algorithm.epochs $$epochs || exit 1; \
	done
	TAUT_SCREENSHOTS=runs/screenshots .venv/bin/python -m pytest tests/browser/test_screenshots.py

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Taut needs Python 3.11 or newer; choose one with: make PYTHON=python3.12' >&2; exit 1; }
	test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
