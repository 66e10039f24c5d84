"""The demo: real work, killed workers, and a verdict from the files. `make demo` runs it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path

try:
    import slothqueue
except ImportError:  # not installed: the sources beside us will do
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
    import slothqueue

import accidents
import record
import verdict
import work
import workers
from screen import Screen, table

INTRO = """\
Python's own standard library is to be compressed, checksummed and counted: {jobs} jobs over
{files} files, {commands} of them commands (gzip, sha256sum, wc), {functions} Python functions.
They are in one SQLite file, and three workers take them from there. Meanwhile we

  * kill the process that watches over a command, and the process that runs a function,
  * stop a whole worker for {nap:g} seconds, and let it go on,
  * kill a worker in the midst of its work,

all by surprise (SIGKILL, SIGSTOP). At the end every output is checked against its source, and every
run of every job against the queue's own history. Everything is in {folder}.
"""
PATIENCE = 150.0


class Demo:
    """One demo in a directory of its own."""

    def __init__(self, folder: Path, *, files: int, big: int) -> None:
        self.folder, self.record, self.store = folder, folder / "record", folder / "demo.db"
        self.mark = uuid.uuid4().hex
        self._set_environment()
        self.pieces = work.pieces(folder, files=files, big=big)
        self.screen = Screen()
        self.workers: list[workers.Worker] = []

    def _set_environment(self) -> None:
        """What the workers and all that they start inherit."""
        here, source = Path(__file__).resolve().parent, Path(slothqueue.__file__).parents[1]
        os.environ["SLOTH_DB"] = str(self.store)
        os.environ["SLOTH_AUTOSTART"] = "0"  # whoever works here is one of ours
        os.environ["DEMO_RECORD"] = str(self.record)
        os.environ[workers.MARK] = self.mark
        os.environ["PYTHONPATH"] = os.pathsep.join([str(here), str(source)])

    def introduce(self) -> None:
        commands = sum(piece.command for piece in self.pieces)
        print(
            INTRO.format(
                jobs=len(self.pieces),
                files=len({piece.source for piece in self.pieces}),
                commands=commands,
                functions=len(self.pieces) - commands,
                nap=accidents.NAP,
                folder=self.folder,
            ),
            flush=True,
        )

    # ---- the work -------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Enqueue, work, be killed; returns what was wrong with it."""
        import tasks

        self.jobs = work.enqueue(self.pieces, self.record)
        self.screen.note(f"enqueued {len(self.jobs)} jobs in one transaction")
        self.workers = [workers.Worker(letter, self.folder) for letter in "ABC"]
        self.screen.note(
            f"started workers {', '.join(f'{w.letter} ({w.pid})' for w in self.workers)}"
        )
        self.accidents = accidents.Accidents(
            tasks.sloth, self.jobs, self.workers, self.record, self.screen
        )
        try:
            faults = self._watch(tasks.sloth)
        finally:
            stopping = workers.dismiss(self.workers)
            self.screen.end()
        return faults + stopping

    def _watch(self, sloth: slothqueue.Sloth) -> list[str]:
        """Show how it goes, and let the accidents happen, until all jobs have ended."""
        until, total = time.monotonic() + PATIENCE, len(self.jobs)
        while True:
            counts = sloth.stats()
            ended = counts["done"] + counts["failed"] + counts["cancelled"]
            self.screen.progress(counts, total, self.accidents.saying)
            if ended == total:
                return []
            if fault := self._stuck(until):
                return [fault]
            self.accidents.step(ended / total)
            time.sleep(0.05)

    def _stuck(self, until: float) -> str | None:
        if time.monotonic() > until:
            return f"not everything was done within {PATIENCE:g} s"
        for worker in self.workers:
            if worker.process.poll() is not None and not worker.killed:
                return f"worker {worker.letter} ended by itself:\n{worker.told()}"
        return None

    # ---- the verdict ----------------------------------------------------------------------------

    def judge(self) -> list[str]:
        """What is off, by the files themselves; prints the figures."""
        import tasks

        jobs = {name: job.refresh() for name, job in self.jobs.items()}
        histories = {name: job.events() for name, job in jobs.items()}
        tasks.sloth.close()
        runs = record.read(self.record)
        deeds, again = self.accidents.deeds, verdict.agains(histories, self.accidents.deeds)
        outputs = verdict.wrong_outputs(self.pieces)
        ran = [
            fault
            for name, events in histories.items()
            for fault in verdict.wrong_runs(name, runs.get(name, []), events)
        ]
        left, store = workers.left_behind(self.mark), verdict.wrong_store(self.store)
        faults = (
            verdict.wrong_ends(jobs) + outputs + ran + verdict.wrong_deeds(deeds, again) + store
        )
        faults += [f"still there: {process}" for process in left]
        if self.accidents.outstanding:
            faults.append(f"{self.accidents.outstanding} accidents found nobody to hit")
        repeated = {one.name for one in again}
        kept = sum(len(deed.kept) for deed in deeds)
        total = len(self.pieces)
        rows = [
            ["outputs there and right", f"{total - len(outputs)} of {total}"],
            ["jobs done in one go", f"{total - len(repeated)}"],
            ["re-issued, with the reason", f"{len(repeated)}"],
            ["running under a worker that stopped or died, and kept", f"{kept}"],
            ["lost, doubled or overlapping", f"{len(ran)}"],
            ["processes left behind", f"{len(left)}"],
            ["integrity check of the store", "failed" if store else "ok"],
        ]
        print(f"\n{table(rows)}\n\n{verdict.told(again, runs)}\n")
        return faults


def main(argv: list[str]) -> int:
    if not os.path.isdir("/proc/self"):
        print("This demo looks into /proc, so it needs Linux.", file=sys.stderr)
        return 2
    files, big = (12, 6) if "--small" in argv else (48, 9)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="sloth-demo-"))
    demo = Demo(folder, files=files, big=big)
    demo.introduce()
    try:
        faults = demo.run() + demo.judge()
    except BaseException as error:
        workers.clear(demo.mark)
        print(f"\nThe demo did not come to its end. What there is: {folder}", file=sys.stderr)
        if isinstance(error, KeyboardInterrupt):
            return 130
        raise
    seconds = time.monotonic() - began
    if faults:
        print(f"NOT RIGHT, after {seconds:.0f} s:", *faults[:20], sep="\n  - ")
        print(f"What there is to look at: {folder}")
        return 1
    shutil.rmtree(folder)
    print(f"All is right: nothing lost, nothing doubled, in {seconds:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
