"""Who is answered, and that no path leads out of the folder of runs."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_runs import serving
from starlette.testclient import TestClient

from taut.web.app import STATIC, create_app
from taut.web.security import content_security_policy, is_loopback
from taut.web.serve import link, open_port

TOKEN = "a-token-of-the-test"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8265", "localhost", "localhost:9000", "[::1]:8265", "LOCALHOST:1"]
)
def test_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/api/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["example.org", "127.0.0.1.example.org", "localhost.example.org:8265", "10.0.0.7", "", "[::1", "a@b"],
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/index.html"])
def test_other_hosts_are_refused(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "localhost" in answer.json()["error"]


@pytest.mark.parametrize(
    "origin", ["http://example.org", "null", "http://127.0.0.1:9999", "https://localhost"]
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_pages_of_other_origins_are_refused(client: TestClient, method: str, origin: str) -> None:
    assert client.request(method, "/api/runs", headers={"origin": origin}).status_code == 403


def test_our_own_page_may_post(client: TestClient) -> None:
    answer = client.post("/api/runs", headers={"origin": "http://127.0.0.1:8265"})
    assert answer.status_code == 405  # it got as far as the route, which takes GET


def test_a_foreign_form_without_an_origin_is_refused(client: TestClient) -> None:
    assert client.post("/api/runs", headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_a_link_from_another_site_still_opens_the_page(client: TestClient) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=headers).status_code == 200


@pytest.fixture
def guarded(root: Path) -> Iterator[TestClient]:
    app = create_app(root, token=TOKEN)
    with TestClient(app, base_url="http://gpu-box:8265", follow_redirects=False) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/", "/api/runs", "/static/index.html", "/api/runs?token=wrong", "/?token="]
)
def test_without_the_token_nothing_is_answered(guarded: TestClient, path: str) -> None:
    answer = guarded.get(path)
    assert answer.status_code == 401
    assert TOKEN not in answer.text


def test_the_link_gives_a_cookie_and_leaves_the_address_bar(guarded: TestClient) -> None:
    first = guarded.get(f"/runs?sort=name&token={TOKEN}&search=a+b")
    assert first.status_code == 303
    assert first.headers["location"] == "/runs?sort=name&search=a+b"
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert guarded.get("/api/runs").status_code == 200


def test_the_link_never_leads_to_another_host(guarded: TestClient) -> None:
    location = guarded.get(f"http://gpu-box:8265//example.org/?token={TOKEN}").headers["location"]
    assert not location.startswith("//")


def test_a_script_may_send_the_token(guarded: TestClient) -> None:
    assert guarded.get("/api/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert guarded.get("/api/runs", headers={"authorization": "Bearer other"}).status_code == 401


@pytest.mark.parametrize("cookie", ["taut_token=wrong", "taut_token=", "=;;=", "taut_token=\xe9"])
def test_a_wrong_cookie_is_no_token(guarded: TestClient, cookie: str) -> None:
    assert guarded.get("/api/runs", headers={"cookie": cookie.encode("latin-1")}).status_code == 401


def test_loopback_is_told_from_other_addresses() -> None:
    ours = ["localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"]
    others = ["0.0.0.0", "::", "10.0.0.1", "gpu-box", "127.0.0.1.example.org", ""]
    assert [is_loopback(host) for host in ours + others] == [True] * len(ours) + [False] * len(others)


def test_the_printed_link_holds_the_token() -> None:
    assert link("127.0.0.1", 8265, None) == "http://127.0.0.1:8265/"
    assert link("::1", 8265, None) == "http://[::1]:8265/"
    assert link("10.0.0.7", 80, "t-0") == "http://10.0.0.7:80/?token=t-0"
    assert "0.0.0.0" not in link("0.0.0.0", 80, "t")


def test_a_taken_port_gives_way_to_the_next() -> None:
    first = open_port("127.0.0.1", 0)
    number = first.getsockname()[1]
    second = open_port("127.0.0.1", number)
    assert number < second.getsockname()[1] <= number + 20
    first.close()
    second.close()


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70000), ("203.0.113.9", 0), ("no such host", 0)])
def test_an_address_that_cannot_be_opened_is_told(host: str, port: int) -> None:
    with pytest.raises(ValueError, match=r"port 70000|no address of this machine|not known"):
        open_port(host, port)


def test_every_answer_carries_the_headers(client: TestClient) -> None:
    for path in ("/", "/api/runs", "/api/none", "/static/none.js", "/static/index.html"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_the_import_map_alone_is_allowed_by_its_hash() -> None:
    page = '<script type="importmap">{}</script><script>alert(1)</script>'
    # sha256 of "{}" in base64
    assert (
        "script-src 'self' 'sha256-RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=';"
        in content_security_policy(page)
    )


def test_the_page_holds_no_other_inline_script() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    inline = [text for text in re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", page) if "importmap" not in text]
    assert inline == []
    assert re.search(r"\son\w+=|javascript:", page) is None


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[http.client.HTTPConnection]:
    """A real server, since clients tidy paths up before they send them."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "runs").mkdir()
    (outside / "run.db").write_text("secret-contents")
    with serving(outside / "runs") as port:
        yield http.client.HTTPConnection("127.0.0.1", port, timeout=10)


@pytest.mark.parametrize("base", ["/static/", "/api/runs/", "/api/runs/x/", "/"])
@pytest.mark.parametrize(
    "way",
    [
        *("../app.py", "..%2fapp.py", "%2e%2e/app.py", "%2e%2e%2fapp.py", "..%5capp.py", "..\\app.py"),
        *("../../../../../../etc/passwd", "..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd", "..", "%2e%2e"),
        *(
            "..%00",
            "....//....//etc/passwd",
            "..%252f..%252fetc%252fpasswd",
            "/etc/passwd",
            "%2fetc%2fpasswd",
        ),
    ],
)
def test_no_path_leads_out(raw: http.client.HTTPConnection, base: str, way: str) -> None:
    raw.request("GET", base + way)
    answer = raw.getresponse()
    body = answer.read()
    assert b"root:" not in body
    assert b"create_app" not in body
    assert b"secret-contents" not in body
    page = base == "/" and not re.search(r"(^|[/\\])\.\.($|[/\\])", way.replace("%2f", "/").replace("%5c", "\\")
                                         .replace("%2e", "."))  # fmt: skip
    assert answer.status == (200 if page else 404)


def test_the_server_answers_without_torch(root: Path) -> None:
    code = f"""
import sys
from starlette.testclient import TestClient
from taut.web.app import create_app
import taut.web.serve
client = TestClient(create_app({str(root)!r}), base_url="http://127.0.0.1")
for path in ("/", "/api/workshop", "/api/runs", *("/api/runs/first" + more for more in ("", "/scalars", "/events"))):
    assert client.get(path).status_code == 200, path
print(sorted({{"torch", "transformers", "matplotlib", "pyarrow"}} & set(sys.modules)))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
