"""What is at a path, before anything loads."""

import httpx
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from taut.models import locate


def test_a_folder_without_a_config_is_told_before_anything_loads(tmp_path):
    with pytest.raises(ValueError, match=r"holds no config\.json"):
        locate.check_is_model(str(tmp_path), None)
    (tmp_path / "small.gguf").touch()
    with pytest.raises(ValueError, match=r"set model\.gguf_file, to small\.gguf"):
        locate.check_is_model(str(tmp_path), None)
    locate.check_is_model(str(tmp_path), "small.gguf")


@pytest.mark.parametrize(
    "path", ["/nonexistent", "./model", "../model", "model/", "a/b/c", "~/model", "my model"]
)
def test_what_is_neither_a_folder_nor_a_hub_id(path):
    with pytest.raises(ValueError, match=f"model.path {path}: there is no such folder"):
        locate.check_is_model(path, None)


def failed(kind):
    request = httpx.Request("HEAD", "https://hub")
    return kind("no", response=httpx.Response(404, request=request))


@pytest.mark.parametrize("path", ["addr", "some/addr"])
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (HTTPError("no route"), "the hub cannot be reached"),
        (OfflineModeIsEnabled("off"), "the hub cannot be reached"),
        (failed(RepositoryNotFoundError), "the hub has no such model"),
        (failed(GatedRepoError), None),
        (failed(HfHubHTTPError), None),
        (None, None),
    ],
)
def test_the_hub_is_asked_once(path, error, why, monkeypatch):
    asked = []

    def answer(url, timeout):
        asked.append(url)
        if error is not None:
            raise error

    monkeypatch.setattr(locate, "get_hf_file_metadata", answer)
    if why is None:
        locate.check_is_model(path, None)
    else:
        with pytest.raises(ValueError, match=f"critic.path {path}: there is no such folder here, and {why}"):
            locate.check_is_model(path, None, "critic.path")
    assert len(asked) == 1


def test_a_model_in_the_cache_needs_no_hub(monkeypatch):
    monkeypatch.setattr(locate, "get_hf_file_metadata", None)
    monkeypatch.setattr(locate, "try_to_load_from_cache", lambda path, file: f"/cache/{path}/{file}")
    locate.check_is_model("gpt2", None)
