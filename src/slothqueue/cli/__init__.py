"""The command line. What it takes to tell the version or the help is all that is imported here."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .. import __version__

COMMANDS = {
    "add": ("adding", "queue a command and print its id"),
    "run": ("running", "queue a command, show its output, end as it ends"),
    "status": ("status", "how many jobs there are, who works, what runs"),
    "list": ("looking", "the jobs, in the order in which they start"),
    "show": ("looking", "everything about one job, with its history"),
    "log": ("output", "what a job has written"),
    "follow": ("output", "what a job writes, while it writes it"),
    "search": ("searching", "find text in what jobs have written"),
    "wait": ("waiting", "wait until jobs have ended"),
    "worker": ("working", "run jobs until told to stop"),
    "why": ("explaining", "what a job waits for, in one sentence"),
    "cancel": ("changing", "end jobs, whether they wait or run"),
    "retry": ("changing", "put failed or cancelled jobs back"),
    "hold": ("changing", "keep jobs from running"),
    "unhold": ("changing", "let held jobs run again"),
    "edit": ("editing", "change a job before it runs"),
    "send": ("sending", "write to the input of a running command"),
    "pause": ("pausing", "start no job of a queue any more"),
    "resume": ("pausing", "let the jobs of a queue start again"),
    "queue": ("pausing", "show queues, and set their limits"),
    "prune": ("pruning", "forget jobs that ended long ago"),
    "backup": ("backup", "copy the store to a file while it is in use"),
    "doctor": ("doctor", "what is wrong with this store, and what to do"),
    "completion": ("completing", "what makes your shell complete all this"),
}
"""Each command with the module that it lives in and what it does in one line."""

HIDDEN = {"__background": "resident", "__complete": "completing"}
"""What we call ourselves: the background worker, and what a shell asks for when Tab is pressed."""

HELP = """\
usage: sloth [--db PATH] [--json] [COMMAND] [OPTIONS]

sloth runs commands in the background and loses none: not when a process is
killed, not when the machine sleeps or restarts. Jobs are kept in one file.

Start here:
  sloth add -- make all       queue a command; prints the id of the job, say 1.
                              If nobody is there to run it, a worker is started
  sloth follow 1              see what job 1 writes
  sloth                       see how things are

Commands:
{commands}

Everywhere:
  --db PATH       the file that keeps the jobs (or set SLOTH_DB); without it,
                  sloth.db in your data directory
  --json          one object a line, for programs
  -h, --help      help; `sloth COMMAND --help` has examples
  --version       the version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code. Never raises for what a user can do wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:
        try:
            print(f"sloth {__version__}", flush=True)
            return 0
        except OSError:  # told as every command tells it
            pass
    if words and words[0] in HIDDEN:
        from importlib import import_module

        hidden = import_module(f".{HIDDEN[words[0]]}", __package__)
        return int(hidden.main(words[1:]))
    try:
        from .frame import perform

        return perform(words)
    except KeyboardInterrupt:  # before anything had begun, or while another one was being told
        return 130


def overview() -> str:
    """The help of `sloth` itself."""
    lines = (f"  {name:<12}{summary}" for name, (_, summary) in COMMANDS.items())
    return HELP.format(commands="\n".join(lines))
