"""`sloth completion`, and what a shell asks for when Tab is pressed.

    sloth __complete SHELL INDEX WORD...

The words are the command line so far, `sloth` first; INDEX says which of them is to be completed.
Told is a candidate a line, with a tab and a description behind it. A line that begins with `!` says
what the shell knows better: `!files`, or `!command N` for a command line of its own that begins at
word N. It only looks, and is silent about whatever goes wrong: nobody wants to read an error there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from . import COMMANDS
from .frame import take_apart
from .parsing import Parser
from .screen import cut, one_line
from .session import Session

if TYPE_CHECKING:
    from ..client import Sloth

MOST = 100
LONGEST = 60
PATIENCE = 0.3  # seconds that somebody who pressed Tab waits for a store

LIVE = ("running", "queued")
ENDED_BADLY = ("failed", "cancelled")
STATES_FOR = {
    "follow": LIVE,
    "wait": LIVE,
    "cancel": LIVE,
    "send": ("running",),
    "hold": ("queued",),
    "unhold": ("queued",),
    "edit": ("queued",),
    "why": ("queued",),
    "retry": ENDED_BADLY,
    "--after": LIVE,
}
"""Jobs in which states a command, or an option, is for; others are for all."""

SHELLS = ("bash", "zsh", "fish")


def completion_options(parser: Parser) -> None:
    parser.option("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    parser.describe(
        "bash|zsh|fish",
        "Prints what makes this shell complete commands, options, the ids of jobs and the\n"
        "names of queues when Tab is pressed.",
        """
sloth completion bash >> ~/.bashrc
sloth completion zsh > ~/.zfunc/_sloth        # a directory of your $fpath
sloth completion fish > ~/.config/fish/completions/sloth.fish
""",
    )


def completion_command(session: Session, options: Any) -> int:
    from .completions import SCRIPTS

    sys.stdout.write(SCRIPTS[options.shell])
    return 0


class Candidate(NamedTuple):
    """Something that may stand there, and what it is."""

    text: str
    about: str = ""


FILES = Candidate("!files")


def main(words: list[str]) -> int:
    """Write the candidates for one word of a command line. Never complains."""
    try:
        shell, index, *line = words
        line = [word for word in line[: int(index) + 1] if word != "="]  # bash splits at it
        found = list(_candidates(line[1:-1], line[-1]))
        sys.stdout.write("".join(f"{_told(shell, one)}\n" for one in found))
        sys.stdout.flush()
    except (Exception, SystemExit, KeyboardInterrupt):
        os._exit(0)
    return 0


def _told(shell: str, one: Candidate) -> str:
    if one.text.startswith("!") or not one.about or shell == "bash":
        return one.text
    if shell == "zsh":  # as _describe has it
        return f"{one.text.replace(':', chr(92) + ':')}:{one.about}"
    return f"{one.text}\t{one.about}"


def _candidates(before: list[str], word: str) -> Iterator[Candidate]:
    """What may follow these words in the place of this one, which has begun like that."""
    if before and before[-1] == "--db":
        yield FILES
        return
    line = take_apart(before)
    if not any(given in COMMANDS for given in before):
        yield from _fitting(word, _first_words(word))
    elif line.command in COMMANDS:
        yield from Place(line.command, line.db, line.rest, word, len(before)).candidates()


def _first_words(word: str) -> Iterator[Candidate]:
    if word.startswith("-"):
        yield from (Candidate(name) for name in ("--db", "--json", "--help", "--version"))
        return
    yield from (Candidate(name, about) for name, (_, about) in COMMANDS.items())
    yield Candidate("help", "what a command does")


def _fitting(word: str, found: Iterator[Candidate]) -> Iterator[Candidate]:
    return (one for one in found if one.text.startswith((word, "!")))


class Place:
    """The word to be completed, behind a command."""

    def __init__(
        self, command: str, db: str | None, given: list[str], word: str, before: int
    ) -> None:
        self._command, self._db, self._given, self._word = command, db, given, word
        self._start = 1 + before - len(given)
        """Which word of the whole line the first of those given is; `sloth` is the first."""
        self._parser = parser_of(command)
        self._options: dict[str, argparse.Action] = {
            name: action for action in self._parser._actions for name in action.option_strings
        }
        self._positionals = [one for one in self._parser._actions if not one.option_strings]

    def candidates(self) -> Iterator[Candidate]:
        """What may stand there."""
        awaited, ours, words = self._read()
        if awaited is not None:
            return _fitting(self._word, self._values(awaited))
        if self._parser._takes_command and ours < len(self._given):
            offset = self._start + ours + (self._given[ours] == "--")
            return iter([Candidate(f"!command {offset}")])
        if self._word.startswith("-"):
            name, equals, value = self._word.partition("=")
            if equals and name in self._options:
                found = _fitting(value, self._values(self._options[name]))
                return (Candidate(f"{name}={one.text}", one.about) for one in found)
            return _fitting(self._word, self._names())
        if self._parser._takes_command:
            return iter([Candidate(f"!command {self._start + ours}")])
        if not self._positionals:
            return iter(())
        at = min(words, len(self._positionals) - 1)
        if words > at and self._positionals[at].nargs is None:
            return iter(())  # all that it takes is there
        return _fitting(self._word, self._values(self._positionals[at]))

    def _read(self) -> tuple[argparse.Action | None, int, int]:
        """The option whose value is awaited, how many words are ours, and how many are no options.

        A command of its own begins where the words cease to be ours.
        """
        at = words = 0
        while at < len(self._given):
            word = self._given[at]
            option = self._options.get(word)
            if option is None and (word == "--" or not word.startswith("-")):
                if self._parser._takes_command:
                    break
                words += 1
            takes = option is not None and option.nargs != 0
            if takes and at + 1 == len(self._given):
                return option, at, words
            at += 2 if takes else 1
        return None, at, words

    def _names(self) -> Iterator[Candidate]:
        for action in self._parser._actions:
            for name in action.option_strings:
                yield Candidate(name, one_line(action.help or ""))

    def _values(self, action: argparse.Action) -> Iterator[Candidate]:
        if action.choices is not None:
            return (Candidate(str(choice)) for choice in action.choices)
        if action.metavar == "ID":
            names = [name for name in action.option_strings if name in STATES_FOR]
            return self._jobs(*names, self._command)
        if action.metavar == "QUEUE":
            return self._queues()
        return iter([FILES] if action.metavar in ("PATH", "DIR", "FILE") else [])

    # ---- what the store knows -------------------------------------------------------------------

    def _store(self) -> Sloth | None:
        from ..client import Sloth

        path = Session(argparse.Namespace(db=self._asked_db(), json=False)).path()
        path = os.path.expanduser(path.removeprefix("sqlite:///"))
        if not os.path.isfile(path):
            return None
        return Sloth(path, busy_timeout=PATIENCE, say=lambda sentence: None)

    def _asked_db(self) -> str | None:
        found = self._db
        for word, value in zip(self._given, [*self._given[1:], ""]):
            if word == "--db":
                found = value
            elif word.startswith("--db="):
                found = word[5:]
        return found

    def _jobs(self, *what: str) -> Iterator[Candidate]:
        from .facts import title

        if (sloth := self._store()) is None:
            return
        states = next((STATES_FOR[one] for one in what if one in STATES_FOR), (None,))
        taken = set(self._given)
        with sloth:
            for state in states:
                for job in sloth.jobs(state=state, limit=MOST):
                    if str(job.id) not in taken:
                        name = cut(one_line(title(job)), LONGEST)
                        yield Candidate(str(job.id), f"{job.state}: {name}")

    def _queues(self) -> Iterator[Candidate]:
        if (sloth := self._store()) is None:
            return
        with sloth:
            names = {lane.queue for lane in sloth.store.read(sloth.verbs.lanes.all)}
        yield from (Candidate(name) for name in sorted(names))


def parser_of(command: str) -> Parser:
    """The parser of a command, with the options that all have."""
    home, summary = COMMANDS[command]
    parser = Parser(command, summary, db=None, json=False)
    getattr(import_module(f".{home}", __package__), f"{command}_options")(parser)
    parser.add_common()
    return parser
