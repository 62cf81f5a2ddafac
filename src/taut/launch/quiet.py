"""Keeps other libraries' progress bars and advice out of our output."""

from __future__ import annotations

import logging

from transformers import modeling_gguf_pytorch_utils
from transformers.utils import logging as transformers_logging


def quiet_libraries() -> None:
    """Errors still show."""
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    # The reader of GGUF files takes tqdm itself, which nobody can disable, and not the one that heeds the above.
    modeling_gguf_pytorch_utils.tqdm = transformers_logging.tqdm
    # peft imports it wherever it is installed, and it advises some CPUs to fetch a faster kernel.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
