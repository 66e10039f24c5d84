"""The options of commands: one parser per command, made only when that command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from ..timing import millis, some_millis


class Usage(Exception):
    """The command line makes no sense; the message says what to write instead."""


def _formatter(prog: str) -> argparse.HelpFormatter:
    # Told its width, or it imports shutil (2 ms) to ask the terminal, once for every option.
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=20, width=80)


class Parser(argparse.ArgumentParser):
    """The parser of one command. It knows `--db` and `--json`, and complains in one line."""

    def __init__(self, command: str, summary: str, *, db: str | None, json: bool) -> None:
        super().__init__(
            prog=f"sloth {command}",
            allow_abbrev=False,
            add_help=False,
            formatter_class=_formatter,
        )
        self.description = summary[:1].upper() + summary[1:] + "."
        self._command, self._flags, self._takes_command = command, {"--json", "-h", "--help"}, False
        self._defaults_given = {"db": db, "json": json}
        self._only_behind_dashes = self._mixed = False

    def describe(self, usage: str, more: str, examples: str) -> None:
        """What the help says: how it is written, what it does, what it looks like."""
        self.usage = f"sloth {self._command} {usage}"
        self.description = f"{self.description}\n\n{more.strip()}"
        self.epilog = "examples:\n" + "\n".join(
            f"  {line}" for line in examples.strip().split("\n")
        )

    def flag(self, name: str, help: str) -> None:
        """An option without a value."""
        self._flags.add(name)
        self.add_argument(name, action="store_true", help=help)

    def option(self, *names: str, help: str, **more: Any) -> None:
        """An option with a value, or a word without an option's name before it."""
        self._mixed = self._mixed or not names[0].startswith("-")
        self.add_argument(*names, help=help, **more)

    def takes_command(self, *, behind_dashes: bool = False) -> None:
        """What follows the options, with or without `--`, is a command of its own."""
        self._takes_command, self._only_behind_dashes = True, behind_dashes

    def read(self, words: list[str]) -> argparse.Namespace:
        """The options in these words. Raises Usage."""
        self.add_common()
        self.set_defaults(**self._defaults_given)
        command: list[str] = []
        given = words
        if self._takes_command:
            words, command = self._split(words)
        options: argparse.Namespace = self.parse_args(words)
        if self._takes_command:
            options.command, options.stray = command, self._stray(given, words)
        if options.db == "":
            raise Usage("--db is empty; name a file, such as --db work.db")
        return options

    def add_common(self) -> None:
        """The options that every command has."""
        self.option("--db", metavar="PATH", help="the file that keeps the jobs (or set SLOTH_DB)")
        self.add_argument("--json", action="store_true", help="one object a line, for programs")
        self.add_argument("-h", "--help", action="help", help="show this")

    def _split(self, words: list[str]) -> tuple[list[str], list[str]]:
        """Our options, and the command: from the first word on that is no option, as in env(1)."""
        at = 0
        while at < len(words):
            word = words[at]
            if word == "--":
                return words[:at], words[at + 1 :]
            if not word.startswith("-") or word == "-":
                if not self._only_behind_dashes:
                    break
                at += 1
                continue
            alone = word in self._flags or "=" in word or (word[1] != "-" and len(word) > 2)
            at += 1 if alone else 2
        return words[:at], words[at:]

    def _stray(self, given: list[str], ours: list[str]) -> str | None:
        """A sentence if an option of ours stands behind the first word of the command."""
        command = given[len(ours) :]
        if not command or command[0] == "--":
            return None
        end = command.index("--") if "--" in command else len(command)
        stray: list[str] = []
        rest, at = command[:1], 1
        while at < len(command):
            size = self._length(command[at]) if at < end else 0
            (stray if size else rest).extend(command[at : at + (size or 1)])
            at += size or 1
        if not stray:
            return None
        from shlex import join

        meant = f"sloth {self._command} {join([*ours, *stray])} -- {join(rest)}"
        verb = "is" if len(stray) <= 2 else "are"
        return (
            f"{join(stray)} {verb} part of the command; if that is meant for sloth, write {meant}"
        )

    def _length(self, word: str) -> int:
        """How many words an option of ours takes, with its value; 0 for what is none."""
        action = self._option_string_actions.get(word.partition("=")[0])
        if action is None or action.dest == "help":
            return 0
        return 1 if action.nargs == 0 or "=" in word else 2

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        read = self.parse_known_intermixed_args if self._mixed else super().parse_known_args
        options, unknown = read(words, namespace)
        if unknown:
            self.error(f"{unknown[0]!r} is not understood")
        return options

    def error(self, message: str) -> NoReturn:
        told = message.removeprefix("argument ")
        raise Usage(f"{self._command}: {told}; see `sloth {self._command} --help`")


def checked(check: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for an option: the ValueError of `check` is what the user is told."""

    def convert(text: str) -> Any:
        try:
            return check(text)
        except (ValueError, OverflowError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _duration(text: str) -> str:
    millis(text)
    return text


duration = checked(_duration)
"""Text such as `10m`, checked; stays text."""


def _some_duration(text: str) -> str:
    some_millis(text, what="duration")
    return text


some_duration = checked(_some_duration)
"""The same, where zero makes no sense."""


def none_or(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same, or `none`."""
    return lambda text: None if text.strip().lower() == "none" else convert(text)


def whole(least: int, most: int | None = None) -> Callable[[str], Any]:
    """A whole number from `least` on, to `most` if there is one."""

    def check(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if number < least:
            raise ValueError(f"{number} is less than {least}")
        if most is not None and number > most:
            raise ValueError(f"{number} is more than {most}")
        return number

    return checked(check)


def job_id(text: str) -> int:
    """The number of a job, as `sloth add` prints it."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the id of a job; ids are numbers, `sloth list` shows them"
        )
    return int(text)
