"""The command that opens Taut in the browser."""

from __future__ import annotations

from pathlib import Path

from taut.commands.arguments import ROOT


def web(*, root: str = ROOT, host: str = "127.0.0.1", port: int = 8265, open: bool = False) -> None:
    """Serve the workshop and the runs of a folder as web pages.

    Args:
        root: Folder that holds the run directories.
        host: Address to serve at; one that other machines reach asks them for the token in the printed link.
        port: Port to serve at; where it is taken, the next free one.
        open: Open the page in the browser.
    """
    from taut.web.glances import left_out
    from taut.web.serve import serve

    for name in left_out(Path(root)):
        print(f"not shown: {name!a} (its name holds characters that cannot be printed: rename its folder)")
    serve(root, host, port, open, lambda link: print(f"taut web: {link}\nCtrl-C ends it", flush=True))
