"""Who may ask: pages of this server alone, and from another machine only who has the link.

A page of any site can send requests to a port of this machine. It cannot read the answers (no CORS header is
ever sent), unless its name is made to point here (DNS rebinding), which the Host header gives away. It could
start things by a POST, which the Origin header gives away.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taut.web.strict_json import error_answer

IMPORT_MAP = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)


def is_loopback(host: str) -> bool:
    """Whether nothing but this machine reaches a server bound to `host`."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(authority: str) -> str:
    """The name in a Host header, without its port: "[::1]:80" -> "::1"; empty where it is none."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").rstrip(".")
    except ValueError:
        return ""


class Guard:
    """Answers 421 to a foreign Host, 403 to a foreign Origin, 401 to who lacks the token; adds the headers.

    Without a `token` the server is for this machine: the Host must be a name of it. With one any Host is right,
    since a foreign page has no cookie of ours. The token comes as `?token=` once, and is a cookie from then on.
    """

    def __init__(self, app: ASGIApp, token: str | None, cookie: str = "taut_token") -> None:
        self.app = app
        self.token = token
        self.cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                add_headers(MutableHeaders(scope=message))
            await send(message)

        refusal = self.refusal(scope)
        await (refusal or self.app)(scope, receive, send_with_headers)

    def refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self.token is None and not is_loopback(host_name(headers.get("host", ""))):
            return error_answer(
                421, "this server answers to localhost alone; taut web --host serves other machines"
            )
        if not from_own_page(headers):
            return error_answer(403, "a page of another site asked for this: open Taut's own page")
        return None if self.token is None else self._without_token(scope, headers, self.token)

    def _without_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(key == "token" and _equal(value, token) for key, value in query):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            path = "/" + scope["raw_path"].decode("latin-1").lstrip("/")  # "//x" would be another host
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(self.cookie, token, httponly=True, samesite="strict", path="/")
            return answer
        given = _cookie(headers.get("cookie", ""), self.cookie)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _equal(given, token) or _equal(bearer, token):
            return None
        return error_answer(401, "open the link that taut web printed: it holds the token")


def from_own_page(headers: Headers) -> bool:
    """Whether the browser says that one of our pages asks, or says nothing, as `curl` does."""
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    return origin.partition("://")[2].lower() == headers.get("host", "").lower()


def add_headers(headers: MutableHeaders) -> None:
    headers.setdefault("Content-Security-Policy", content_security_policy(""))
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers.setdefault("Cache-Control", "no-cache")


def content_security_policy(page: str) -> str:
    """Nothing but this server's own files; the import map of `page`, which must stand in it, by its hash."""
    hashes = "".join(f" '{sha256_source(text)}'" for text in IMPORT_MAP.findall(page))
    return (
        f"default-src 'self'; script-src 'self'{hashes}; img-src 'self' data: blob:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def sha256_source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
