"""Whether there is a model at a path, a folder or a hub id, before anything is loaded."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

HUB_SECONDS = 5.0
"""How long the hub may take to say whether it has a model."""


def check_is_model(
    path: str, gguf_file: str | None, setting: str = "model.path", trust_remote_code: bool = False
) -> None:
    """Raises ValueError before anything is loaded where `path` is neither a model's folder nor what a hub id may be.

    `setting` is where the path was given. Also where its weights are pickled, unless it is trusted.
    """
    if Path(path).is_file():
        raise ValueError(f"{setting} {path} is a file: name the model's folder")
    if not Path(path).is_dir():
        try:
            validate_repo_id(path)
        except HFValidationError:
            raise ValueError(
                f"{setting} {path}: there is no such folder, and a hub id is owner/name"
            ) from None
        _ask_hub(path, gguf_file or "config.json", setting)
    elif not gguf_file and not (Path(path) / "config.json").is_file():
        if gguf := sorted(Path(path).glob("*.gguf")):
            raise ValueError(
                f"{setting} {path} holds GGUF weights and no config.json: set model.gguf_file, to {gguf[0].name}"
            )
        raise ValueError(f"{setting} {path} is not a model folder: it holds no config.json")
    pickled = sorted(Path(path).glob("pytorch_model*.bin"))
    if pickled and not trust_remote_code and not any(Path(path).glob("*.safetensors")):
        raise ValueError(
            f"{setting} {path} holds pickled weights ({pickled[0].name}), and a pickle can run code as it is read: "
            "save them as safetensors, or set model.trust_remote_code to true where you trust who made them"
        )


def _ask_hub(path: str, file: str, setting: str) -> None:
    """Once and quickly, what transformers would ask for half a minute. Raises ValueError where `path` is not there."""
    if isinstance(try_to_load_from_cache(path, file), str):
        return
    try:
        get_hf_file_metadata(hf_hub_url(path, file), timeout=HUB_SECONDS)
        return
    except (GatedRepoError, EntryNotFoundError):
        return  # it is there, and transformers says what is the matter with it
    except RepositoryNotFoundError:
        why = "the hub has no such model"
    except HfHubHTTPError:
        return  # an answer that a second try may mend
    except (HTTPError, OSError):
        why = "the hub cannot be reached"
    raise ValueError(
        f"{setting} {path}: there is no such folder here, and {why}: name a folder, or a hub id as owner/name"
    ) from None
