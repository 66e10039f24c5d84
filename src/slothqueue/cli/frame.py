"""From a command line to an exit code: runs the command, turns errors into one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from .. import __version__
from ..errors import (
    JobNotFound,
    NotSerializable,
    SchemaTooNew,
    SchemaTooOld,
    StoreUnavailable,
    WrongState,
)
from . import COMMANDS, overview
from .parsing import Parser, Usage
from .screen import one_line
from .session import INTERRUPTED, PIPE_CLOSED, NoStoreYet, Session

USAGE, NOT_FOUND, NOT_ALLOWED, OUR_FAULT, UNAVAILABLE = 2, 3, 5, 70, 75

# The first that fits counts.
CODES: tuple[tuple[type[BaseException], int], ...] = (
    (JobNotFound, NOT_FOUND),
    (NoStoreYet, NOT_FOUND),
    (WrongState, NOT_ALLOWED),
    (StoreUnavailable, UNAVAILABLE),
    (SchemaTooNew, UNAVAILABLE),
    (SchemaTooOld, UNAVAILABLE),
    (Usage, USAGE),
    (NotSerializable, USAGE),
    (ValueError, USAGE),
    (OSError, UNAVAILABLE),
)


class Line(NamedTuple):
    """A command line, taken apart: the command, what stood before it, and what follows."""

    command: str
    db: str | None
    json: bool
    rest: list[str]


def perform(words: Sequence[str]) -> int:
    """Run the command; one line on stderr for whatever goes wrong."""
    try:
        try:
            _harden_streams()
            return _perform(list(words))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
        return PIPE_CLOSED
    except SystemExit as end:  # the help of a command
        return int(end.code or 0)
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        return _told(error)


def _perform(words: list[str]) -> int:
    line = take_apart(words)
    if line.command in ("--help", "help"):
        return _help(line.rest)
    if line.command == "--version":
        print(f"sloth {__version__}")
        return 0
    home, summary = COMMANDS.get(line.command) or _no_such(line.command)
    module = import_module(f".{home}", __package__)
    parser = Parser(line.command, summary, db=line.db, json=line.json)
    getattr(module, f"{line.command}_options")(parser)
    options = parser.read(line.rest)
    act: Callable[[Session, Any], int] = getattr(module, f"{line.command}_command")
    with Session(options) as session:
        return act(session, options)


def take_apart(words: list[str]) -> Line:
    """What stands before the command belongs to all commands; without a command it is status."""
    db, json, rest = None, False, list(words)
    while rest and rest[0].startswith("-"):
        word = rest[0]
        if word == "--json":
            json, rest = True, rest[1:]
        elif word == "--db" and len(rest) > 1:
            db, rest = rest[1], rest[2:]
        elif word.startswith("--db="):
            db, rest = word[5:], rest[1:]
        elif word in ("-h", "--help"):
            return Line("--help", db, json, [])
        elif word == "--version":
            return Line("--version", db, json, [])
        else:
            return Line("status", db, json, rest)
    return Line(rest[0], db, json, rest[1:]) if rest else Line("status", db, json, [])


def _help(words: list[str]) -> int:
    if words:
        return _perform([words[0], "--help"])
    sys.stdout.write(overview())
    return 0


def _no_such(command: str) -> tuple[str, str]:
    from difflib import get_close_matches  # only for those who mistyped

    close = get_close_matches(command, COMMANDS, 1)
    hint = f"did you mean `sloth {close[0]}`?" if close else "`sloth --help` lists them all"
    raise Usage(f"there is no command {command!r}; {hint}")


def _told(error: Exception) -> int:
    """Tell what went wrong, and the exit code for it."""
    code = next((code for kind, code in CODES if isinstance(error, kind)), OUR_FAULT)
    if code == OUR_FAULT:
        if os.environ.get("SLOTH_TRACEBACK"):
            raise error
        _complain(
            f"{type(error).__name__}: {error}. This is a fault of sloth; with SLOTH_TRACEBACK=1 it "
            "tells where"
        )
    elif isinstance(error, OSError):
        _abandon_stdout()
        _complain(f"{_place(error)}: {error.strerror or error}")
    else:
        _complain(str(error))
    return code


def _place(error: OSError) -> str:
    """What the error is about: without the name of a file it can only be our own output."""
    return str(error.filename or "the output could not be written")


def _complain(sentence: str) -> None:
    try:
        sys.stderr.write(f"sloth: {one_line(sentence)}\n")
        sys.stderr.flush()
    except OSError:
        return


def _harden_streams() -> None:
    """No name that a terminal cannot show, and no closed stream, may end in a traceback."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _abandon_stdout() -> None:
    """What is left in the buffer cannot be written, and must not raise again at the exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return
