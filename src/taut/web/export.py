"""A run, or one step of it, as one HTML file that needs no server; and its tables as files to save.

The file is the page itself: an import map that leads each module to a data: URL, the styles, and what the API
answers today, as text that no content can end. It asks nothing of anyone.
"""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from taut.store import Run
from taut.store.export import TABLES, export_run
from taut.web.asked import Answer, answer_of
from taut.web.requests import run_of
from taut.web.security import IMPORT_MAP, sha256_source
from taut.web.strict_json import encode

STATIC = Path(__file__).with_name("static")
MOST_BYTES = 64_000_000
"""Of tokens in one file; the replies beyond it are left out, and the page says so."""
TABLE_FORMATS = ("csv", "parquet", "jsonl")
ENTRY = 'import "taut/main.js";'
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">\n?')
_SCRIPT = re.compile(r'<script type="module" src="[^"]+"></script>')
_ICON = re.compile(r'<link rel="icon" href="/static/([^"]+)"[^>]*>')
_URL = re.compile(r'url\("/static/([^"]+)"\)')


def export_page(app: Starlette, run: Run, step: int | None = None) -> str:
    """The HTML file. Raises ValueError for a step that is not kept."""
    if step is not None and step not in run.kept_steps():
        run.replies(step)  # says which are
    with ThreadPoolExecutor(1) as own:  # this thread may run an event loop already, as a notebook's does
        answers = own.submit(asyncio.run, _answers(app, run, step)).result()
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    import_map = json.dumps({"imports": module_urls(page)})
    path = f"/runs/{quote(run.name, safe='')}" + ("" if step is None else f"/steps/{step}")
    title = run.name if step is None else f"{run.name}, step {step}"
    page = _STYLE.sub(lambda link: f"<style>{_style(link[1])}</style>\n", page)
    page = _ICON.sub(lambda link: f'<link rel="icon" href="{_data_url(link[1])}">', page)
    page = IMPORT_MAP.sub(lambda _: f'<script type="importmap">{import_map}</script>', page)
    page = _SCRIPT.sub(lambda _: f'<script type="module">{ENTRY}</script>', page)
    page = page.replace("<title>Taut</title>", f"<title>{html.escape(title)} · Taut</title>", 1)
    page = page.replace("<head>", f"<head>\n{_policy(import_map)}", 1)
    before, after = page.rsplit("</body>", 1)
    embedded = "\n".join(_embedded(path, answer) for path, answer in answers)
    opening = f'<div id="taut-embedded" data-start="{html.escape(path)}" hidden>'
    return f"{before}{opening}\n{embedded}\n</div>\n</body>{after}"


def write_page(app: Starlette, run: Run, place: Path | str, step: int | None = None) -> None:
    """`export_page` into a file. Raises ValueError where there is one already."""
    place = Path(place)
    if place.exists():
        raise ValueError(f"{str(place)!r} exists and is not overwritten: choose another place")
    page = export_page(app, run, step)
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("x", encoding="utf-8") as file:
        file.write(page)


def module_urls(page: str) -> dict[str, str]:
    """Every module of the pages as a data: URL, by the name under which others import it."""
    [text] = IMPORT_MAP.findall(page)
    named: dict[str, str] = json.loads(text)["imports"]
    urls = {
        name: _data_url(path.removeprefix("/static/"))
        for name, path in named.items()
        if not name.endswith("/")
    }
    prefixes = {name: path.removeprefix("/static/") for name, path in named.items() if name.endswith("/")}
    for prefix, folder in prefixes.items():
        for file in sorted((STATIC / folder).rglob("*.js")):
            place = file.relative_to(STATIC / folder).as_posix()
            if not place.startswith("vendor/"):
                urls[prefix + place] = _data_url(file.relative_to(STATIC).as_posix())
    return urls


def _data_url(path: str) -> str:
    kinds = {".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
    body = (STATIC / path).read_bytes()
    return f"data:{kinds[Path(path).suffix]};base64,{base64.b64encode(body).decode()}"


def _style(path: str) -> str:
    return _URL.sub(
        lambda found: f'url("{_data_url(found[1])}")', (STATIC / path).read_text(encoding="utf-8")
    )


def _policy(import_map: str) -> str:
    """Nothing is fetched, from nowhere; only the two scripts that stand here run, and the modules they name."""
    hashes = " ".join(f"'{sha256_source(text)}'" for text in (import_map, ENTRY))
    rules = (
        f"default-src 'none'; script-src data: {hashes}; style-src 'unsafe-inline'; font-src data:; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _embedded(path: str, answer: Answer) -> str:
    """In JSON `<` stands as an escape, so that no text can end the element, nor begin another."""
    if answer.kind == "application/json":
        kind, body = answer.kind, answer.body.decode().replace("<", "\\u003c")
    else:
        kind, body = "text/plain", base64.b64encode(answer.body).decode()
    return f'<script type="{kind}" data-path="{html.escape(path)}">{body}</script>'


async def _answers(app: Starlette, run: Run, step: int | None) -> list[tuple[str, Answer]]:
    """What the pages of a run, and of a step, ask for; with what is not in the file taken out of lists."""
    base = f"/api/runs/{quote(run.name, safe='')}"
    described = (await answer_of(app, base)).json()
    described["kept_steps"] = [] if step is None else [step]
    rows = [row for row in (await answer_of(app, "/api/runs")).json()["runs"] if row["run"] == run.name]
    found = [
        ("/api/runs", _json({"root": "", "runs": rows})),
        (base, _json(described)),
        (f"{base}/steps", _json({"kept": described["kept_steps"], "dropped": [], "superseded": []})),
    ]
    for path in (f"{base}/scalars", f"{base}/events"):
        found.append((path, await answer_of(app, path)))
    return found if step is None else found + await _answers_of_step(app, base, step)


async def _answers_of_step(app: Starlette, base: str, step: int) -> list[tuple[str, Answer]]:
    found, rows, listed = [], list[Any](), dict[str, Any]()
    while not rows or len(rows) < listed["matched"]:
        listed = (await answer_of(app, f"{base}/steps/{step}/replies?limit=500&offset={len(rows)}")).json()
        if not listed["replies"]:
            break
        rows += listed["replies"]
    found.append((f"{base}/steps/{step}/replies", _json({**listed, "replies": rows, "kept": [step]})))
    size, left = 0, [row["reply"] for row in rows]
    while left and size < MOST_BYTES:
        path = f"{base}/steps/{step}/tokens?replies={','.join(map(str, left))}"
        answer = await answer_of(app, path)
        size += len(answer.body)
        found.append((f"{base}/steps/{step}/tokens#{len(found)}", answer))
        left = _left_out(answer.body)
    for prompt in dict.fromkeys(row["prompt_index"] for row in rows):
        followed = (await answer_of(app, f"{base}/prompts/{prompt}")).json()
        followed["replies"] = [row for row in followed["replies"] if row["step"] == step]
        found.append((f"{base}/prompts/{prompt}", _json(followed)))
    return found


def _left_out(tokens: bytes) -> list[int]:
    length = int.from_bytes(tokens[:4], "little")
    left: list[int] = json.loads(tokens[4 : 4 + length])["left_out"]
    return left


def _json(content: Any) -> Answer:
    return Answer("application/json", encode(content).encode())


def page(request: Request) -> Response:
    """The HTML file, to save."""
    run, step = run_of(request), _step(request)
    name = f"{run.name}.html" if step is None else f"{run.name}-step-{step}.html"
    return Response(export_page(request.app, run, step), media_type="text/html", headers=_to_save(name))


def table(request: Request) -> Response:
    """scalars, replies or tokens as CSV, Parquet or JSON Lines, to save."""
    run, step = run_of(request), _step(request)
    name, format = request.path_params["table"], request.path_params["format"]
    if name not in TABLES or format not in TABLE_FORMATS:
        raise HTTPException(404, f"there are {', '.join(TABLES)}, each as {', '.join(TABLE_FORMATS)}")
    folder = Path(tempfile.mkdtemp(prefix="taut-export-"))
    try:
        export_run(run, folder / "tables", format, [name], step)
    except BaseException as error:
        shutil.rmtree(folder)
        if isinstance(error, ImportError):
            raise ValueError(str(error)) from error
        raise
    saved = f"{run.name}-{name}.{format}" if step is None else f"{run.name}-step-{step}-{name}.{format}"
    return FileResponse(
        folder / "tables" / f"{name}.{format}",
        media_type="application/octet-stream",
        headers=_to_save(saved),
        background=BackgroundTask(shutil.rmtree, folder),
    )


def _step(request: Request) -> int | None:
    text = request.query_params.get("step")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"step is a whole number, not {text[:40]!r}")
    return int(text)


def _to_save(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


ROUTES = [
    Route("/api/export/{name}/page", page),
    Route("/api/export/{name}/{table}.{format}", table),
]
