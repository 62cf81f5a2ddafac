"""Weights & Biases, online or off."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec

from taut.trackers.tracker import TrackedRun

UPLOAD_SECONDS = 60.0
"""How long the end of a run waits for the upload of what was logged, which stays in the run's directory anyway."""
DONE, FAILED, KILLED = 0, 1, 255
"""Exit codes as its server reads them."""


class WandbTracker:
    """Logs to the project `$WANDB_PROJECT`, else `taut`, and keeps its files in the run's directory."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "taut"),
            id=run.id,
            name=run.name,
            resume="allow" if run.resumed else None,
            config=run.config.model_dump(),
            dir=str(run.directory),
            reinit="create_new",  # a run that a notebook has open is not ours to write into
            settings=wandb.Settings(
                console="off",  # else it would record every frame that the terminal draws
                quiet=True,
                finish_timeout=UPLOAD_SECONDS,
                finish_timeout_raises=True,
            ),
        )

    @staticmethod
    def need() -> None:
        if find_spec("wandb") is None:
            raise ImportError("run.trackers = wandb needs it: pip install 'taut[wandb]'")
        import wandb

        if wandb.setup().settings.mode in ("offline", "disabled"):
            return
        if not wandb.login(prompt=False, verify=False):
            raise ValueError(
                "run.trackers = wandb has no API key: run `wandb login` once, or set WANDB_MODE=offline and upload "
                "the run later with `wandb sync`"
            )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        # Without `commit` it would hold a step back until the next one.
        self._run.log(dict(metrics), step=step, commit=True)

    def close(self, error: BaseException | None) -> None:
        interrupted = isinstance(error, KeyboardInterrupt)
        self._run.finish(exit_code=DONE if error is None else KILLED if interrupted else FAILED)
