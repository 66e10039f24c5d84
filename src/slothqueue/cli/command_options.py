"""What only a command can be asked for: options of `sloth add` and `sloth run`."""

from __future__ import annotations

import os
import sys
from typing import Any

from .parsing import Parser, Usage, checked, none_or, whole
from .session import Session

USAGE = """\
[--env NAME[=VALUE]]... [--env-file FILE] [--clean-env]
                 [--max-output SIZE] [--separate | --tty] [--stdin]
                 [--retry-on CODES | --no-retry] [--nice N] [--keep-log WHEN]"""


def command_options(parser: Parser) -> None:
    """The options themselves."""
    _environment_options(parser)
    parser.option(
        "--max-output",
        metavar="SIZE",
        type=none_or(checked(_most)),
        default=USUAL,
        help="how much of its output is kept, such as 1GB, or none for no limit (default: 64MB); "
        "the middle of what is more is cut",
    )
    parser.flag("--separate", help="keep its errors apart from its output")
    parser.flag("--tty", help="run it at a terminal of its own, for those that want one")
    parser.flag("--stdin", help="give it an input, for `sloth send`")
    parser.option(
        "--retry-on",
        metavar="CODES",
        type=checked(_codes),
        help="try again only after these exit codes, such as 75,signal,timeout",
    )
    parser.flag("--no-retry", help="never when it fails; if it was interrupted, it comes again")
    parser.option(
        "--nice", metavar="N", type=whole(0, 19), default=0, help="how far it stands back: 1 to 19"
    )
    parser.option(
        "--keep-log",
        choices=("always", "failed", "never"),
        metavar="WHEN",
        default="always",
        help="keep its output always, if it failed, or never (default: always)",
    )
    parser.flag("--verbose", help="tell which variables look like secrets and are left out")


def _environment_options(parser: Parser) -> None:
    parser.option(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="give it this variable; without =VALUE as it is here, even if it looks like a secret",
    )
    parser.option(
        "--env-file",
        metavar="FILE",
        action="append",
        default=[],
        help="give it the variables of this file, a NAME=VALUE on each line",
    )
    parser.flag(
        "--clean-env", help="of the variables here take along only PATH, HOME and their like"
    )


USUAL = object()
"""What was not asked for."""


def asked(session: Session, options: Any) -> dict[str, Any]:
    """The same as `Queue.enqueue_command` takes them. Raises Usage."""
    if options.separate and options.tty:
        raise Usage("give --separate or --tty, not both: a terminal shows errors and output as one")
    if options.no_retry and options.retry_on is not None:
        raise Usage("give --retry-on or --no-retry, not both")
    if options.no_retry and options.retries is not None:
        raise Usage("give --retries or --no-retry, not both")
    env = _environment(options)
    if options.verbose:
        _tell_left_out(session, env, clean=options.clean_env)
    if options.tty:
        _tell_size(session)
    told = {
        "env": env or None,
        "clean_env": options.clean_env,
        "separate": options.separate,
        "tty": options.tty,
        "stdin": options.stdin,
        "retry_on": [] if options.no_retry else options.retry_on,
        "nice": options.nice,
        "keep_log": options.keep_log,
    }
    return told if options.max_output is USUAL else {**told, "max_output": options.max_output}


# ---- values -------------------------------------------------------------------------------------


def _most(text: str) -> int:
    from ..orders import LEAST_OUTPUT
    from ..sizes import size

    most = size(text)
    if most < LEAST_OUTPUT:
        raise ValueError(f"{text!r} is less than {LEAST_OUTPUT} bytes; `none` keeps all")
    return most


def _codes(text: str) -> list[int | str]:
    return [_code(word.strip()) for word in text.split(",")]


def _code(word: str) -> int | str:
    if word in ("signal", "timeout"):
        return word
    if word.isascii() and word.isdigit() and 1 <= int(word) <= 255:
        return int(word)
    raise ValueError(
        f"{word!r} is no exit code from 1 to 255, `signal` or `timeout`; write them like 75,signal"
    )


# ---- environment --------------------------------------------------------------------------------


def _environment(options: Any) -> dict[str, str]:
    """What is given by name: of files, and of `--env`, which count for more."""
    found: dict[str, str] = {}
    for path in options.env_file:
        found.update(_of_file(path))
    return found | dict(_variable(word) for word in options.env)


def _of_file(path: str) -> dict[str, str]:
    from ..environment import read_env_file

    try:
        return read_env_file(path)
    except OSError as error:
        raise Usage(f"--env-file {path!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise Usage(f"--env-file {error}") from None


def _variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not name:
        raise Usage(f"--env {word!r} has no name; write --env NAME=VALUE")
    if not equals and name not in os.environ:
        raise Usage(f"--env {name}: there is no such variable here; write --env {name}=VALUE")
    value = value if equals else os.environ[name]
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Usage(f"the value of --env {name} is not UTF-8, and a job keeps text only") from None
    return name, value


def _tell_left_out(session: Session, given: dict[str, str], *, clean: bool) -> None:
    from ..environment import PASSING, looks_secret

    kept = PASSING | given.keys()
    names = sorted(name for name in os.environ if looks_secret(name) and name not in kept)
    if names and not clean:
        session.note(
            f"left out, for they look like secrets: {', '.join(names)}; --env NAME takes one along"
        )


def _tell_size(session: Session) -> None:
    """A terminal like ours, where we have one: only some shells tell how large it is."""
    stream = next((one for one in (sys.stdout, sys.stderr) if one.isatty()), None)
    if stream is not None:
        size = os.get_terminal_size(stream.fileno())
        for name, count in (("COLUMNS", size.columns), ("LINES", size.lines)):
            if count:
                os.environ.setdefault(name, str(count))
