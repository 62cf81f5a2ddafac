"""A run as one HTML file, and its tables as files to save. What the file shows: tests/browser/test_export.py."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_up_runs import made_up_run
from starlette.testclient import TestClient

from taut import cli
from taut.store import ReplyRecord, Run, RunWriter, StepRecord
from taut.web.app import create_app
from taut.web.export import export_page, module_urls

HOSTILE = "</script><script>alert(1)</script><!--<script>"


@pytest.fixture
def hostile(tmp_path: Path) -> Run:
    reply = ReplyRecord(
        *(
            0,
            0,
            0,
            0,
            HOSTILE,
            np.array([1], np.int32),
            HOSTILE,
            np.array([7, 8], np.int32),
            np.ones(2, bool),
        ),
        reward=1.0,
        finish_reason="stop",
        terms={HOSTILE: 1.0},
    )
    folder = tmp_path / "runs" / '"><img src=x onerror=alert(1)>'
    with RunWriter.create(folder, "run:\n  seed: 0\n", facts={HOSTILE: HOSTILE}) as writer:
        for step in (1, 2):
            writer.append(StepRecord(step, {}, {HOSTILE: np.nan, "reward/mean": 0.5}, [reply]))
        writer.event("check", HOSTILE, HOSTILE, "warning", 1)
    return Run.open(folder)


class Elements(HTMLParser):
    """The elements of a page, and what stands in its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}", {}))


def test_no_text_ends_an_element_or_begins_one(hostile: Run) -> None:
    found = Elements(export_page(create_app(hostile.directory.parent), hostile, 2))
    kinds = [attributes.get("type") for tag, attributes in found.tags if tag == "script"]
    assert set(kinds) == {"importmap", "module", "application/json", "text/plain"}
    assert (kinds.count("importmap"), kinds.count("module")) == (1, 1)
    assert not [tag for tag, _ in found.tags if tag == "img"]
    scripts = dict(
        zip([a.get("data-path") for t, a in found.tags if t == "script"], found.scripts, strict=True)
    )
    base = next(path for path in scripts if path and path.endswith("%3E"))
    described = json.loads(scripts[base])
    assert described["facts"] == {HOSTILE: HOSTILE}
    assert described["kept_steps"] == [2]
    listed = json.loads(scripts[f"{base}/steps/2/replies"])
    assert (listed["replies"][0]["text"], listed["replies"][0]["terms"]) == (HOSTILE, {HOSTILE: 1.0})
    events = json.loads(scripts[f"{base}/events"])["events"]
    assert events[-1]["message"] == HOSTILE


def test_the_file_names_nothing_outside_it(hostile: Run) -> None:
    page = export_page(create_app(hostile.directory.parent), hostile)
    found = Elements(page)
    addresses = [a[key] for _, a in found.tags for key in ("src", "href") if key in a]
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    assert "/static/" not in "".join(re.findall(r"url\([^)]*\)", page))
    assert "connect-src" not in page
    assert "default-src 'none'" in page


def test_every_module_that_is_imported_is_in_the_map() -> None:
    page = (Path(cli.__file__).parent / "web" / "static" / "index.html").read_text(encoding="utf-8")
    urls = module_urls(page)
    assert {"preact", "preact/hooks", "htm", "uplot", "taut/main.js"} <= set(urls)
    assert all(url.startswith("data:text/javascript;base64,") for url in urls.values())


@pytest.mark.parametrize("step", [[], ["--step", "2"]])
def test_the_command_writes_the_file_once(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], step: list[str]
) -> None:
    command = [
        "export",
        "first",
        str(tmp_path / "out" / "run.html"),
        "--format",
        "html",
        "--root",
        str(root),
        *step,
    ]
    assert cli.main(command) == 0
    assert "taut-embedded" in (tmp_path / "out" / "run.html").read_text(encoding="utf-8")
    assert cli.main(command) == 2
    assert "exists and is not overwritten" in capsys.readouterr().err


def test_a_step_that_is_not_kept_is_told(client: TestClient, tmp_path: Path, root: Path) -> None:
    for address in ("page?step=9", "replies.csv?step=9"):
        answer = client.get(f"/api/export/first/{address}")
        assert (answer.status_code, "steps kept: 1-3" in answer.json()["error"]) == (400, True)
    assert client.get("/api/export/first/page?step=x").status_code == 400
    assert client.get("/api/export/none/page").status_code == 404
    assert client.get("/api/export/first/secrets.csv").status_code == 404
    assert client.get("/api/export/first/scalars.exe").status_code == 404


def test_files_are_saved_and_never_shown_as_pages(client: TestClient) -> None:
    page = client.get("/api/export/first/page?step=1")
    assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''first-step-1.html"
    table = client.get("/api/export/first/replies.csv?step=2")
    assert table.headers["content-disposition"] == "attachment; filename*=UTF-8''first-step-2-replies.csv"
    [row] = csv.DictReader(io.StringIO(table.text))
    assert (row["step"], row["prompt"], row["text"]) == ("2", "1+1=", "2")
    scalars = list(csv.DictReader(io.StringIO(client.get("/api/export/first/scalars.csv").text)))
    assert [float(row["reward/mean"]) for row in scalars] == [0.0, 0.1, 0.2, 0.3]


def test_a_linked_run_is_itself_under_the_links_name(root: Path, tmp_path: Path, client: TestClient) -> None:
    """What the link leads to is called as another run of the folder is."""
    made_up_run(tmp_path / "elsewhere" / "first", steps=1)
    (root / "link").symlink_to(tmp_path / "elsewhere" / "first")
    told = client.get("/api/runs/link").json()
    assert (told["run"], told["kept_steps"]) == ("link", [1])
    saved = client.get("/api/export/link/page")
    assert saved.headers["content-disposition"] == "attachment; filename*=UTF-8''link.html"
    found = Elements(saved.text)
    scripts = dict(
        zip([a.get("data-path") for t, a in found.tags if t == "script"], found.scripts, strict=True)
    )
    assert json.loads(scripts["/api/runs/link/scalars"])["steps"] == [0, 1]
    assert [row["run"] for row in json.loads(scripts["/api/runs"])["runs"]] == ["link"]
    assert not [path for path in scripts if path and path.startswith("/api/runs/first")]
