"""The files of the pages: what they may name, what they weigh, and that a wheel has them."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "taut" / "web" / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
OWN = [path for path in FILES if "vendor" not in path.parts]
MODULES = [path for path in OWN if path.suffix == ".js"]
IMPORT = re.compile(r"""(?:\bfrom\s+|\bimport\s*\(?\s*)["']([^"']+)["']""")
EXPORT = re.compile(r"^export (?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
NAMED = re.compile(r"""^import \{([^}]*)\} from ["']taut/([^"']+)["']""", re.MULTILINE)
VENDORED = {"preact", "preact/hooks", "htm", "uplot"}
LIMIT = 400_000
LINKS = {"https://arxiv.org/abs/", "http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}


def name(path: Path) -> str:
    return str(path.relative_to(STATIC))


def test_the_whole_front_end_is_under_400_kilobytes_as_it_is_sent(client: TestClient) -> None:
    sent = 0
    for path in FILES:
        with client.stream("GET", f"/static/{name(path)}", headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.status_code == 200, path
            sent += len(b"".join(answer.iter_raw()))
    assert sent < LIMIT


def test_files_come_with_their_types(client: TestClient) -> None:
    kinds = {"main.js": "text/javascript", "css/base.css": "text/css", "icon.svg": "image/svg+xml"}
    for file, kind in kinds.items():
        assert client.get(f"/static/{file}").headers["content-type"].partition(";")[0] == kind


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_imports_by_bare_names_what_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for specifier in IMPORT.findall(text):
        assert specifier in VENDORED or specifier.startswith("taut/"), specifier
        assert specifier in VENDORED or (STATIC / specifier.removeprefix("taut/")).is_file(), specifier
    for names, module in NAMED.findall(text):
        wanted = {part.split(" as ")[0].strip() for part in names.split(",") if part.strip()}
        assert wanted - set(EXPORT.findall((STATIC / module).read_text(encoding="utf-8"))) == set(), module


def test_modules_and_styles_are_under_300_lines() -> None:
    assert [name(path) for path in OWN if len(path.read_text(encoding="utf-8").splitlines()) >= 300] == []


def test_no_file_of_ours_names_another_host() -> None:
    for path in OWN:
        found = re.findall(r"https?://[^\s\"'`<>$]*", path.read_text(encoding="utf-8"))
        assert set(found) <= LINKS, name(path)


def test_no_module_makes_markup_or_code_of_a_text() -> None:
    ways = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(|new Function|javascript:"
    )
    assert [name(path) for path in MODULES if ways.search(path.read_text(encoding="utf-8"))] == []


def test_colours_are_named_in_one_place() -> None:
    literal = re.compile(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsla?\(")
    styles = [
        path for path in OWN if path.suffix == ".css" and path.name not in ("tokens.css", "widgets.css")
    ]
    assert [name(path) for path in styles if literal.search(path.read_text(encoding="utf-8"))] == []


def test_every_vendored_folder_has_a_licence() -> None:
    for folder in (STATIC / "vendor").iterdir():
        assert (folder / "LICENSE").stat().st_size > 500, folder.name


def test_a_wheel_has_every_file(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    built = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(built) as wheel:
        assert {f"taut/web/static/{name(path)}" for path in FILES} <= set(wheel.namelist())
