"""The environment of a command: what is kept of its submitter's, and what never is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

# Text and sets, and no pattern: to compile one takes longer than all that it is used for here.
SECRET_PARTS = ("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "CREDENTIAL")
"""A variable whose name has one of these in it looks like a secret, which is not stored unasked."""

SECRET_WORDS = frozenset(("TOKEN", "TOKENS", "AUTH", "PWD", "PASS", "COOKIE", "COOKIES", "JWT"))
"""So does one that has one of these between its underscores, or ends in TOKEN,"""

SECRET_KEYS = tuple(
    f"{kind}{between}KEY"
    for kind in ("API", "PRIVATE", "ACCESS", "SIGNING", "ENCRYPTION", "MASTER", "DEPLOY")
    for between in ("_", "")
)
"""or one of these anywhere."""

NO_SECRETS = frozenset({"SSH_AUTH_SOCK"})
"""Names that look like one and tell only where something is."""

# fmt: off
PASSING = frozenset((
    "_", "PWD", "OLDPWD", "SHLVL",
    "COLUMNS", "LINES", "WINDOWID", "TERM_SESSION_ID", "STY", "TMUX", "TMUX_PANE",
    "SSH_TTY", "GPG_TTY", "SSH_CLIENT", "SSH_CONNECTION",
    "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES",
    "LISTEN_PID", "MAINPID", "WATCHDOG_PID", "WATCHDOG_USEC",
    "MAKEFLAGS", "MFLAGS", "MAKELEVEL",
    "SLOTH_LEASE", "SLOTH_JOB", "SLOTH_ATTEMPT", "SLOTH_TOKEN",
))
# fmt: on
"""What belongs to one process, terminal or attempt, and means nothing later."""

CLEAN = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM")
)
"""What a clean environment has of its submitter's, and all that begins with LC_."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def captured(
    environ: Mapping[str, str], *, extra: Mapping[str, str] | None = None, clean: bool = False
) -> dict[str, str]:
    """What a command is to run with: of this environment what may be kept, and `extra` on top.

    Names that look like secrets, what belongs to one terminal or process, and what is no UTF-8 are
    left out; `clean` leaves only the few that every program wants. `extra` is kept as it is.
    """
    wanted = _is_basic if clean else _is_lasting
    kept = {
        name: value for name, value in environ.items() if wanted(name) and _is_text(name + value)
    }
    return {**kept, **(extra or {})}


_ours: tuple[dict[bytes, bytes], dict[bool, dict[str, str]]] = ({}, {})


def captured_here(*, clean: bool = False) -> dict[str, str]:
    """`captured` of this process: the same dict as long as the environment is the same.

    Worked out anew only when it has changed, for that takes longer than to write a job.
    """
    global _ours
    raw = vars(os.environ).get("_data")  # as the system has it, on every system that has it so
    if raw is None:
        return captured(os.environ, clean=clean)
    if raw != _ours[0]:
        _ours = (dict(raw), {})
    known = _ours[1]
    if clean not in known:
        known[clean] = captured(os.environ, clean=clean)
    return known[clean]


def looks_secret(name: str) -> bool:
    """Whether the value of a variable with this name is not to be stored unasked."""
    if name in NO_SECRETS:
        return False
    name = name.upper()
    return (
        name.endswith(("TOKEN", "TOKENS"))
        or any(part in name for part in SECRET_PARTS + SECRET_KEYS)
        or not SECRET_WORDS.isdisjoint(name.split("_"))
    )


def _is_lasting(name: str) -> bool:
    return name not in PASSING and not looks_secret(name)


def _is_basic(name: str) -> bool:
    return name in CLEAN or name.startswith("LC_")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_env_file(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""The variables of a file with lines `NAME=VALUE`, as many programs have them.

    Lines may begin with `export `; empty ones and those that begin with # are passed over. A value
    ends before ` #`. In single quotes it is taken as it is; in double quotes \n, \t, \r, \", \$, \`
    and \\ mean what they do elsewhere. Nothing is put in for `$NAME`. Raises ValueError that names
    the line, OSError.
    """
    with open(path, "rb") as file:
        data = file.read()
    found: dict[str, str] = {}
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            found.update(_variable(line.decode().strip()))
        except UnicodeDecodeError:
            raise ValueError(f"{os.fspath(path)}, line {number}: it is not UTF-8") from None
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}, line {number}: {error}") from None
    return found


def _variable(line: str) -> dict[str, str]:
    if not line or line.startswith("#"):
        return {}
    name, sign, value = line.removeprefix("export ").strip().partition("=")
    if not sign:
        raise ValueError(f"{line!r} is not NAME=VALUE")
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(f"{name!r} cannot be the name of a variable; write NAME=VALUE")
    if "\0" in value:
        raise ValueError(f"the value of {name} holds a NUL byte")
    return {name: _value(value.strip())}


def _value(text: str) -> str:
    quote = text[:1]
    if quote not in ("'", '"') or not quote:
        return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].rstrip()
    pattern = r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"'
    found = re.fullmatch(pattern + r"\s*(?:#.*)?", text)
    if found is None:
        raise ValueError("its quotes do not end with its value")
    if quote == "'":
        return found[1]
    return re.sub(r"\\(.)", _escaped, found[1])


def _escaped(found: re.Match[str]) -> str:
    letter = found[1]
    return _ESCAPES.get(letter) or (letter if letter in '\\"$`' else "\\" + letter)
