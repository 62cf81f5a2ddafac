"""Keeps transformers' progress bars and advice out of our output."""

from __future__ import annotations

from transformers.utils import logging


def quiet_transformers() -> None:
    """Errors still show."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
