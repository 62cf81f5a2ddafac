"""Keeps transformers' progress bars and advice out of our output."""

from __future__ import annotations

from transformers import modeling_gguf_pytorch_utils
from transformers.utils import logging


def quiet_transformers() -> None:
    """Errors still show."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    # The reader of GGUF files takes tqdm itself, which nobody can disable, and not the one that heeds the above.
    modeling_gguf_pytorch_utils.tqdm = logging.tqdm
