"""What a server says in its terminal as it is ended."""

from __future__ import annotations

import asyncio
import logging

import pytest

from taut.web.serve import serve


@pytest.mark.parametrize(
    ("error", "shown"), [(asyncio.CancelledError(), False), (ValueError("a bug"), True), (None, True)]
)
def test_a_request_that_ctrl_c_cuts_off_is_no_fault_to_show(
    error: BaseException | None, shown: bool, monkeypatch: pytest.MonkeyPatch, tmp_path, caplog
) -> None:
    log = logging.getLogger("uvicorn.error")

    def ended(server, sockets) -> None:
        monkeypatch.setattr(log, "handlers", [caplog.handler])  # uvicorn has set its own by now
        log.error("Exception in ASGI application", exc_info=error)
        raise KeyboardInterrupt

    monkeypatch.setattr("uvicorn.Server.run", ended)
    monkeypatch.setattr(log, "filters", [])
    serve(tmp_path, "127.0.0.1", 0, open_browser=False, say=lambda link: None)
    assert ("Exception in ASGI application" in caplog.messages) == shown
