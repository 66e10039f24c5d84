"""`sloth search`: find text in what jobs have written."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..models import STATES
from ..outputs import Cut
from ..sizes import spoken_size
from .logs import Log, all_logs, written
from .looking import check_queue
from .parsing import Parser, Usage, job_id, whole
from .progress import Progress
from .screen import safe
from .session import NoStoreYet, Session

if TYPE_CHECKING:
    from ..client import Sloth

FOUND, NOTHING = 0, 1

CHUNK = 1 << 20
OVERLAP = 1 << 12
"""Bytes of a line longer than a chunk that are looked at twice, for a match across its parts."""

AROUND = 300
"""Characters that a person is shown before and behind a match in a long line."""

SLICE = 1000  # jobs that are looked up in one reading

# What colors and titles are made of. It is left out before anything is looked for.
_STEERING = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(\x07|\x1b\\)?)")


def search_options(parser: Parser) -> None:
    parser.option("text", metavar="TEXT", help="what to look for, within a line")
    parser.option(
        "ids", metavar="ID", nargs="*", type=job_id, help="only in these jobs (default: in all)"
    )
    parser.option("-q", "--queue", metavar="QUEUE", help="only in jobs of this queue")
    parser.option(
        "--state", choices=STATES, metavar="STATE", help=f"only in those in it: {', '.join(STATES)}"
    )
    parser.flag("--ignore-case", help="a and A are the same")
    parser.flag("--regex", help="TEXT is a regular expression, as Python has them")
    parser.option("-n", dest="limit", metavar="N", type=whole(1), help="at most so many lines")
    parser.describe(
        "TEXT [ID...] [-q QUEUE] [--state STATE] [--ignore-case]\n"
        "                    [--regex] [-n N]",
        "Looks through the output of all attempts, oldest jobs first, and prints each\n"
        "line that has it as `ID:LINE: TEXT`, or `ID.ATTEMPT:LINE: TEXT` for a job with\n"
        "several. Colors in the output do not count. Ends with 0 if any is found, else 1.",
        """
sloth search 'No space left'
sloth search --ignore-case error 5 6
sloth search --regex 'took [0-9]{3,} s' -q media --state done -n 20
""",
    )


def search_command(session: Session, options: Any) -> int:
    sought = Sought(_pattern(options).search, literal=not options.regex)
    try:
        sloth = session.existing()
    except NoStoreYet as error:
        session.note(str(error))
        return NOTHING
    check_queue(sloth, options.queue)
    found = 0
    outputs = _outputs(session, sloth, options)
    with Progress(sum(output.size for output in outputs), "searching") as progress:
        cuts: list[Cut] = []
        for match in _matches(outputs, sought, progress, cuts):
            progress.hide()
            if found == options.limit:
                session.note(f"there is more; -n {10 * found} shows more of it")
                break
            found += 1
            _tell(session, match)
    sys.stdout.flush()
    if cuts:
        lost = spoken_size(sum(cut.length for cut in cuts))
        session.note(f"... {lost} cut ... of this output was not kept, so it was not searched")
    return FOUND if found else NOTHING


def _pattern(options: Any) -> re.Pattern[str]:
    text = options.text
    if not text or "\n" in text:
        raise Usage("search: TEXT is to be found within a line; it must be there, and be one line")
    try:
        return re.compile(
            text if options.regex else re.escape(text), re.IGNORECASE if options.ignore_case else 0
        )
    except re.error as error:
        raise Usage(f"search: {text!r} is no regular expression: {error}") from None


# ---- where to look ------------------------------------------------------------------------------


class Output(NamedTuple):
    """One file of output, and how it is called."""

    log: Log
    stream: str
    path: str
    size: int
    alone: bool
    """Whether it is of the only attempt of its job."""


class Match(NamedTuple):
    """One line that has it."""

    output: Output
    number: int
    text: str
    found: re.Match[str]


def _outputs(session: Session, sloth: Sloth, options: Any) -> list[Output]:
    """All the files that are to be looked through, in their order. Raises JobNotFound."""
    wanted = {session.job(id).id for id in options.ids}
    logs = [log for log in all_logs(sloth.store.logs) if not wanted or log.job in wanted]
    if options.queue is not None or options.state is not None:
        fitting = _fitting(sloth, sorted({log.job for log in logs}), options)
        logs = [log for log in logs if log.job in fitting]
    count: dict[int, int] = {}
    for log in logs:
        count[log.job] = count.get(log.job, 0) + 1
    each = (_files(log, alone=count[log.job] == 1) for log in logs)
    return [output for outputs in each for output in outputs]


def _files(log: Log, *, alone: bool) -> Iterator[Output]:
    for stream, path in (("output", log.path), ("errors", log.errors)):
        try:
            yield Output(log, stream, path, os.path.getsize(path), alone)
        except OSError:  # not kept apart; or pruned since
            continue


def _fitting(sloth: Sloth, ids: list[int], options: Any) -> set[int]:
    """Those of the jobs that are of the queue and in the state that was asked for."""
    fitting: set[int] = set()
    for at in range(0, len(ids), SLICE):
        some = ids[at : at + SLICE]
        rows = sloth.store.read(lambda tx, ids=some: [sloth.store.jobs.get(tx, id) for id in ids])  # type: ignore[misc]
        for row in rows:
            if row and options.queue in (None, row[1]) and options.state in (None, STATES[row[4]]):
                fitting.add(row[0])
    return fitting


# ---- looking ------------------------------------------------------------------------------------


class Sought(NamedTuple):
    """What finds a match in a line; what is `literal` needs no lines to see that there is none."""

    search: Callable[[str], re.Match[str] | None]
    literal: bool


def _matches(
    outputs: Iterable[Output], sought: Sought, progress: Progress, cuts: list[Cut]
) -> Iterator[Match]:
    """The lines that have it; the cuts that are met are added to `cuts`."""
    for output in outputs:
        parts = _noting(written(output.path, chunk=CHUNK), cuts)
        try:
            for number, text, found in lines_with(parts, sought, progress.advance):
                yield Match(output, number, text, found)
        except FileNotFoundError:  # pruned while we looked
            continue


def _noting(parts: Iterable[bytes | Cut], cuts: list[Cut]) -> Iterator[bytes | Cut]:
    for part in parts:
        if isinstance(part, Cut):
            cuts.append(part)
        yield part


def lines_with(
    parts: Iterable[bytes | Cut],
    sought: Sought,
    advance: Callable[[int], object] = lambda count: None,
) -> Iterator[tuple[int, str, re.Match[str]]]:
    """Number, text and match of each line in which something is found.

    A line that draws over itself is one line, and the first of its states that fits is told. Takes
    no more memory for a file of any size, or for a line of any length.
    """
    number, told = 1, 0
    for block, ended in _blocks(parts, advance):
        text = _STEERING.sub("", block.decode("utf-8", "surrogateescape")).removesuffix("\n")
        lines = () if sought.literal and not sought.search(text) else text.split("\n")
        for n, line in enumerate(lines, number):
            match = _match(line, sought) if n > told else None
            if match is not None:
                told = n
                yield n, match.string, match
        number += block.count(b"\n") if ended else 0


def _match(line: str, sought: Sought) -> re.Match[str] | None:
    if "\r" not in line:
        return sought.search(line)
    return next((found for state in line.split("\r") if (found := sought.search(state))), None)


def _blocks(
    parts: Iterable[bytes | Cut], advance: Callable[[int], object]
) -> Iterator[tuple[bytes, bool]]:
    """Whole lines, many at a time; of a line that is too long, parts that overlap (False)."""
    rest = b""
    for part in parts:
        if isinstance(part, Cut):  # a line of its own, as `sloth log` shows it
            advance(part.length)
            yield rest + b"\n\n", True
            rest = b""
            continue
        advance(len(part))
        data = rest + part
        end = data.rfind(b"\n") + 1
        if end:
            yield data[:end], True
            rest = data[end:]
        elif len(data) < CHUNK:
            rest = data
        else:
            yield data, False
            rest = data[-OVERLAP:]
    if rest:
        yield rest, True


# ---- telling ------------------------------------------------------------------------------------


def _tell(session: Session, match: Match) -> None:
    log = match.output.log
    if session.json:
        session.tell(
            {
                "job": log.job,
                "attempt": log.attempt,
                "stream": match.output.stream,
                "line": match.number,
                "text": match.text.encode("utf-8", "surrogateescape").decode(
                    "utf-8", "backslashreplace"
                ),
            }
        )
        return
    paint = session.screen.paint
    name = str(log.job) if match.output.alone else f"{log.job}.{log.attempt}"
    place = f"{paint(name, 'blue')}:{paint(str(match.number), 'green')}"
    session.say(f"{place}: {_marked(session, match)}")


def _marked(session: Session, match: Match) -> str:
    """The line, every match in it marked; for a person a long one is cut around the first."""
    start, end = 0, len(match.text)
    if session.screen.terminal:
        start = max(match.found.start() - AROUND, start)
        end = min(match.found.end() + AROUND, end)
    parts, at = ["…" if start else ""], start
    for one in match.found.re.finditer(match.text, start, end):
        found = session.screen.paint(_harmless(one[0]), "red")
        parts += [_harmless(match.text[at : one.start()]), found]
        at = one.end()
    more = "…" if end < len(match.text) else ""
    return "".join([*parts, _harmless(match.text[at:end]), more])


def _harmless(text: str) -> str:
    return "\t".join(safe(part) for part in text.split("\t"))
