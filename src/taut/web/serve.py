"""Opens a port and serves on it until it is interrupted."""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

from taut.web.security import is_loopback

PORTS_TRIED = 20
SECONDS_TO_LEAVE = 3
"""How long a slow answer may hold up the end."""


def serve(root: Path | str, host: str, port: int, open_browser: bool, say: Callable[[str], None]) -> None:
    """Serves the runs in `root` until Ctrl-C; the link is told to `say` once the port is open.

    A port that is taken gives way to the next free one; 0 takes any. A `host` that other machines reach gets
    a token, which is part of the link.

    Raises ValueError where nothing can be opened at `host`.
    """
    import uvicorn

    from taut.web.app import create_app

    taken = open_port(host, port)
    number = taken.getsockname()[1]
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    # Cookies are shared by all ports of a host: each server has its own.
    app = create_app(root, token, cookie=f"taut_token_{number}")
    say(link(host, number, token))
    if open_browser:
        webbrowser.open(link(host, number, token))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=SECONDS_TO_LEAVE, ws="none"
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    server = uvicorn.Server(config)
    app.state.leaving = lambda: server.should_exit  # open streams end by themselves
    try:
        server.run(sockets=[taken])
    except KeyboardInterrupt:
        return
    finally:
        taken.close()


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """A request that the end cuts off is no fault to show the lines of."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def open_port(host: str, port: int) -> socket.socket:
    """A listening socket at `port`, or at the next free one."""
    if not 0 <= port < 65536:
        raise ValueError(f"port {port} is none: choose one from 1024 to 65535, or 0 for any that is free")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ValueError(
            f"host {host!r} is not known ({error.strerror}): choose an address of this machine"
        ) from None
    family, kind, protocol, _, address = found[0]
    last = port if port == 0 else min(port + PORTS_TRIED, 65535)
    for number in range(port, last + 1):
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address[0], number, *address[2:]))
            listening.listen(128)
            return listening
        except OSError as error:
            listening.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ValueError(f"host {host!r} is no address of this machine ({error.strerror})") from None
    raise ValueError(f"ports {port} to {last} are taken or not allowed: choose another with --port")


def link(host: str, port: int, token: str | None) -> str:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    address = f"[{shown}]" if ":" in shown else shown
    return f"http://{address}:{port}/" + (f"?token={token}" if token else "")
