"""`taut COMMAND ...`: the table of commands, and what becomes of their errors."""

from __future__ import annotations

import difflib
import errno
import io
import os
import sqlite3
import sys
import traceback
from collections.abc import Callable, Sequence

import taut
from taut.commands import again, browse, learn, look, prepare, use
from taut.commands.arguments import call_plain
from taut.commands.help import print_commands, print_plain_help, print_settings_help
from taut.terminal.console import make_console, printable

WITH_SETTINGS: dict[str, Callable[[list[str]], None]] = {
    "train": learn.train,
    "fork": learn.fork,
    "sft": learn.sft,
    "reward-model": learn.reward_model,
    "dpo": learn.dpo,
    "sweep": learn.sweep,
    "replay": again.replay,
    "eval": use.evaluate,
    "sample": use.sample,
    "check": prepare.check,
    "plan": prepare.plan,
}
"""Take a config file and `--section.key value`, all of it read by `taut.config`."""

PLAIN: dict[str, Callable[..., None]] = {
    "runs": look.runs,
    "show": look.show,
    "compare": look.compare,
    "export": look.export,
    "web": browse.web,
}
"""Their arguments are their signature: those before the / by place, the others by name."""

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
LONGEST_ERROR, LONGEST_LINE = 8, 500  # lines, characters
_NO_WAY = "choose a place where you may write"
REMEDIES = {
    errno.EACCES: _NO_WAY,
    errno.EPERM: _NO_WAY,
    errno.EROFS: _NO_WAY,
    errno.EISDIR: "name a file, not a folder",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOENT: "name a place that there is",
    errno.ENOSPC: "make room and run it again",
    errno.ENOTDIR: "name a folder, not a file",
}
"""What a user can do where the operating system refuses."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code: 0 done, 1 failed, 2 wrong input, 130 interrupted."""
    sys.stdout = sys.stdout or io.StringIO()  # None where the shell closed it
    sys.stderr = sys.stderr or io.StringIO()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        try:
            _run([argument for argument in given if argument != "--debug"])
        finally:
            sys.stdout.flush()  # at exit, where Python would do it, a reader that has left cannot be caught
    except KeyboardInterrupt as interrupt:
        return _say(str(interrupt) or "interrupted", INTERRUPTED, debug)
    except (ValueError, ImportError) as error:
        return _say(str(error), WRONG_INPUT, debug)
    except (
        BrokenPipeError
    ):  # the reader, such as `head`, has seen enough; at exit Python would flush once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        remedy = f"; {REMEDIES[error.errno]}" if error.errno in REMEDIES else ""
        return _say(f"{type(error).__name__}: {error}{remedy}", FAILED, debug)
    except (ArithmeticError, RuntimeError, sqlite3.Error) as error:
        return _say(f"{type(error).__name__}: {error}", FAILED, debug)
    except SystemExit as end:  # how rich ends where the reader has left
        return end.code if isinstance(end.code, int) else FAILED
    return DONE


def _run(arguments: list[str]) -> None:
    name, *rest = arguments or ["--help"]
    console = make_console()
    if name in ("-h", "--help"):
        print_commands({**WITH_SETTINGS, **PLAIN}, console)
    elif name == "--version":
        print(f"taut {taut.__version__}")
    elif name in WITH_SETTINGS and {"-h", "--help"} & set(rest):
        print_settings_help(name, WITH_SETTINGS[name], console)
    elif name in PLAIN and {"-h", "--help"} & set(rest):
        print_plain_help(name, PLAIN[name])
    elif name in WITH_SETTINGS:
        WITH_SETTINGS[name](rest)
    elif name in PLAIN:
        call_plain(name, PLAIN[name], rest)
    else:
        near = difflib.get_close_matches(name, [*WITH_SETTINGS, *PLAIN], n=1)
        hint = f"did you mean {near[0]}?" if near else "taut --help lists the commands"
        raise ValueError(f"unknown command {name!r}: {hint}")


def _say(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    lines = message.strip().splitlines() or ["failed"]
    more = [f"and {len(lines) - LONGEST_ERROR} lines more: see --debug"] if len(lines) > LONGEST_ERROR else []
    shown = [_shown(line) for line in [*lines[:LONGEST_ERROR], *more]]
    print("taut: " + "\n      ".join(shown), file=sys.stderr)
    return code


def _shown(line: str) -> str:
    return printable(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}...", make_console())


if __name__ == "__main__":
    sys.exit(main())
