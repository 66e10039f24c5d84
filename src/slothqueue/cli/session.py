"""What every command needs: the store, a place to write to, the way to speak of a job."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import JobNotFound, SlothError, StoreUnavailable
from .screen import Screen, one_line

if TYPE_CHECKING:
    import datetime as dt

    from ..client import Sloth
    from ..handles import Job

VERSION = 1
"""Of the objects that `--json` writes: grows when one of them loses or changes a field."""

INTERRUPTED = 130
PIPE_CLOSED = 141  # what a shell shows for a program that died of a closed pipe


class NoStoreYet(SlothError):
    """A command that only looks was pointed at a file that does not exist yet."""


class Session:
    """One run of one command."""

    def __init__(self, options: Any) -> None:
        self.db: str | None = options.db
        self.json: bool = options.json
        self.starts = not (getattr(options, "no_start", False) or turned_off(os.environ))
        """Whether a background worker may be started for what this command queues."""
        self.screen = Screen(sys.stdout)
        self._sloth: Sloth | None = None

    # ---- the store ------------------------------------------------------------------------------

    def path(self) -> str:
        """The file that keeps the jobs."""
        return self.db or os.environ.get("SLOTH_DB") or os.path.join(data_directory(), "sloth.db")

    @property
    def by_default(self) -> bool:
        """Whether nobody has said which file."""
        return not (self.db or os.environ.get("SLOTH_DB"))

    def store(self) -> Sloth:
        """The store, made if it is not there."""
        if self._sloth is None:
            from ..client import Sloth

            path = self.path()
            if self.by_default:
                _make_private(data_directory())
            self._sloth = Sloth(path, say=self.note)
        return self._sloth

    def existing(self) -> Sloth:
        """The store for a command that only looks. Raises NoStoreYet, and makes nothing."""
        path = self._file()
        folder = os.path.dirname(path)
        if not os.path.lexists(path) and (self.by_default or os.path.isdir(folder)):
            raise NoStoreYet(f"there are no jobs yet: {path} does not exist. `sloth add` makes it")
        return self.store()

    def _file(self) -> str:
        return os.path.abspath(os.path.expanduser(self.path().removeprefix("sqlite:///")))

    def job(self, id: int) -> Job:
        """The job with this id. Raises JobNotFound."""
        try:
            return self.existing().job(id)
        except NoStoreYet as error:
            raise JobNotFound(f"there is no job {id}: {self._file()} does not exist yet") from error

    def now(self) -> dt.datetime:
        """This moment, by the clock of the store."""
        from ..timing import as_datetime

        return as_datetime(self.store().clock.wall())

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._sloth is not None:
            self._sloth.close()

    # ---- speaking -------------------------------------------------------------------------------

    def say(self, *lines: str) -> None:
        """Write lines for a person; what comes from others must be safe already."""
        sys.stdout.write("".join(f"{line}\n" for line in lines))

    def tell(self, facts: dict[str, Any]) -> None:
        """Write one object for a program."""
        sys.stdout.write(json.dumps({"v": VERSION} | facts) + "\n")

    def note(self, sentence: str) -> None:
        """Say something beside the point, on stderr."""
        with contextlib.suppress(OSError):  # a closed pipe is told when the command ends
            sys.stdout.flush()
        sys.stderr.write(f"sloth: {one_line(sentence)}\n")
        sys.stderr.flush()

    def command(self, words: str) -> str:
        """A command line of ours that works on this store: what to type next."""
        if self.db is None:
            return f"sloth {words}"
        from shlex import quote

        return f"sloth {words} --db {quote(self.db)}"

    def ours(self, sentence: str) -> str:
        """The sentence, with the commands in it (`sloth why 5`) as they work on this store."""
        from re import sub

        return sub("`sloth ([^`]*)`", lambda match: f"`{self.command(match[1])}`", sentence)


def quoted(word: str) -> str:
    """A word as one would type it."""
    from shlex import quote

    return quote(word)


def turned_off(environment: Mapping[str, str]) -> bool:
    """Whether SLOTH_AUTOSTART says that no worker is to be started."""
    return environment.get("SLOTH_AUTOSTART", "").lower() in ("0", "no", "off", "false")


def data_directory() -> str:
    """Where this system keeps the data of a user's programs."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA") or home, "slothqueue")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "slothqueue")
    base = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):  # the standard says to ignore others
        base = os.path.join(home, ".local", "share")
    return os.path.join(base, "slothqueue")


def _make_private(directory: str) -> None:
    try:
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        if not os.path.isdir(directory):
            os.mkdir(directory, 0o700)
    except OSError as error:
        raise StoreUnavailable(
            f"{directory} cannot be created: {error.strerror}. Name another place with --db "
            "or SLOTH_DB"
        ) from error
