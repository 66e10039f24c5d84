"""Queues from a shell: paused, resumed, limited, and what is forgotten of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slothqueue import Sloth

from .cli_support import Cli, Terminal, until

WAITING = "touch on; while ! test -e go; do sleep 0.05; done"


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def running(sloth: Cli, *options: str) -> int:
    """A job whose command runs by now, until there is a file `go`."""
    id = sloth.add(*options, "--", "sh", "-c", WAITING)
    until((sloth.folder / "on").exists, "the command runs")
    until(lambda: sloth.job(id)["state"] == "running", "the job is running")
    return id


# ---- pause and resume ---------------------------------------------------------------------------


def test_a_paused_queue_starts_nothing_and_says_so_everywhere(sloth: Cli):
    sloth.add("-q", "media", "--", "true")
    assert sloth("pause", "media").text == "queue media paused\n"
    assert "queue media is paused already, " in sloth("pause", "media").text
    sloth("worker", "--until-idle")
    assert sloth.job(1)["state"] == "queued"
    assert "paused" in sloth("list").text
    assert "queue 'media' is paused" in sloth("why", "1").text
    status = sloth("status").text
    assert "Queue media was paused " in status
    assert "sloth resume media\n" in status
    added = sloth("add", "-q", "media", "--", "true")
    assert "queue 'media' is paused, so job 2 waits: sloth resume media\n" in added.err
    assert sloth("resume", "media").text == "queue media resumed; 2 of its jobs are due\n"
    assert sloth("resume", "media").text == "queue media was not paused\n"
    sloth("worker", "--until-idle")
    assert sloth.job(1)["state"] == "done"


def test_many_queues_are_paused_and_resumed_and_told_as_json(sloth: Cli):
    sloth.add("--", "true")
    told = sloth("pause", "default", "media", "--json")
    assert [(one["queue"], one["paused"]) for one in told.objects] == [
        ("default", True),
        ("media", True),
    ]
    assert "there was no queue 'media' so far" in told.err
    told = sloth("resume", "default", "media", "--json")
    assert [(one["queue"], one["paused"]) for one in told.objects] == [
        ("default", False),
        ("media", False),
    ]
    assert "no queue 'oops'" in sloth.refused("resume", "default", "oops", code=2)


def test_what_runs_goes_on_and_can_be_waited_for(sloth: Cli):
    with sloth.worker():
        running(sloth)
        assert sloth("pause", "default").text == "queue default paused; 1 of its jobs still runs\n"
        with Terminal(sloth, "pause", "default", "--wait") as terminal:
            terminal.read_until("still runs")
            (sloth.folder / "go").touch()
            assert terminal.finish() == 0
            assert "queue default: none of its jobs runs any more" in terminal.seen
    assert sloth.job(1)["state"] == "done"
    assert sloth("pause", "default", "--wait").text.startswith("queue default is paused already")


def test_interrupting_the_wait_leaves_the_queue_paused_and_says_so(sloth: Cli):
    with sloth.worker():
        running(sloth)
        with Terminal(sloth, "pause", "default", "--wait", columns=120) as terminal:
            terminal.read_until("still runs")
            terminal.type("\x03")
            assert terminal.finish() == 130
            assert "what was paused stays so; `sloth resume QUEUE` ends that" in terminal.seen
        (sloth.folder / "go").touch()
        sloth("wait", "1")
    assert sloth("queue", "default", "--json").objects[0]["paused"]


# ---- options ------------------------------------------------------------------------------------


def test_every_option_of_a_queue_is_set_shown_and_taken_away(sloth: Cli):
    words = ["--concurrency", "2", "--rate", "10/1m", "--ageing", "1h", "--keep", "30d"]
    done = sloth("queue", "media", *words, "--max-attempts", "7", "--backoff", "3,10m")
    assert done.text == (
        "queue media: concurrency none -> 2, rate none -> 10/1m, ageing none -> 1h, "
        "keep 7d -> 30d, max-attempts 4 -> 7, backoff 2,1h -> 3,10m\n"
    )
    assert "there was no queue 'media' so far" in done.err
    assert sloth("queue", "media", "--concurrency", "2").text == "queue media is as it was\n"
    assert (
        sloth("queue", "media", "--json").objects[0].items()
        >= {
            "concurrency": 2,
            "rate": 10,
            "rate_per": 60.0,
            "ageing": 3600.0,
            "keep": 2_592_000.0,
            "max_attempts": 7,
            "backoff_base": 3.0,
            "backoff_cap": 600.0,
            "queued": 0,
        }.items()
    )
    lines = [line.split() for line in sloth("queue", "media").text.splitlines()]
    assert ["rate", "10/1m"] in lines
    assert ["jobs", "none"] in lines
    assert "Queue media runs at most 2 jobs at once and starts at most 10 in 1m." in (
        sloth("status").text
    )
    none = [w if w.startswith("-") else "none" for w in words]
    assert "concurrency 2 -> none, rate 10/1m -> none" in sloth("queue", *none, "media").text
    assert sloth("queue", "media", "--backoff", "2").text.endswith("backoff 3,10m -> 2,1h\n")


def test_all_queues_are_shown_in_a_table(sloth: Cli):
    assert "no jobs yet" in sloth("queue").err
    sloth.add("-q", "media", "--", "true")
    sloth.add("--", "true")
    sloth("queue", "media", "--concurrency", "3")
    sloth("pause", "media")
    head, first, second = (line.split() for line in sloth("queue").text.splitlines())
    assert head[:4] == ["QUEUE", "QUEUED", "RUNNING", "LIMIT"]
    assert first == ["default", "1", "0", "-", "-", "-", "7d", "4"]
    assert second[:8] == ["media", "1", "0", "3", "-", "-", "7d", "4"]
    assert second[8:]
    assert [one["queue"] for one in sloth("queue", "--json").objects] == ["default", "media"]
    assert "no queue 'oops'" in sloth.refused("queue", "oops", code=2)


def test_a_limit_counts_for_a_worker(sloth: Cli):
    sloth("queue", "default", "--concurrency", "1")
    with sloth.worker("-j", "4"):
        running(sloth)
        second = sloth.add("--", "true")
        assert "at its limit of 1 by #1" in sloth("why", str(second)).text
        (sloth.folder / "go").touch()
        sloth("wait", str(second))


# ---- prune --------------------------------------------------------------------------------------


@pytest.fixture
def ended(sloth: Cli) -> Cli:
    """Jobs 1 done, 2 failed, 3 cancelled, 4 done in another queue; 5 is queued."""
    sloth.add("--", "echo", "hi")
    sloth.add("--retries", "0", "--", "false")
    sloth.add("--in", "1h", "--", "true")
    sloth("cancel", "3")
    sloth.add("-q", "media", "--", "true")
    sloth("worker", "--until-idle")
    sloth.add("--in", "1h", "--", "true")
    return sloth


def ids(sloth: Cli) -> list[int]:
    return sorted(job["id"] for job in sloth("list", "--json").objects)


def test_a_dry_run_only_tells(ended: Cli):
    assert ended("prune", "--older-than", "0", "--dry-run").text == "4 jobs would be deleted\n"
    told = ended("prune", "--older-than", "0", "--dry-run", "--json").objects
    assert told[0].items() >= {"deleted": 0, "found": 4}.items()
    assert ended("prune", "--dry-run").text == "0 jobs would be deleted\n"
    assert ids(ended) == [1, 2, 3, 4, 5]
    ended("cancel", "5")  # the newest, which stays
    assert ended("prune", "--older-than", "0", "--dry-run").text == "4 jobs would be deleted\n"
    assert ended("prune", "--older-than", "0").text == "4 jobs deleted\n"


def test_jobs_go_by_age_state_and_queue(ended: Cli):
    assert ended("prune", "--older-than", "1h").text == "0 jobs deleted\n"
    assert ended("prune", "--older-than", "0", "-q", "media").text == "1 job deleted\n"
    assert ids(ended) == [1, 2, 3, 5]
    both = ["--state", "done", "--state", "cancelled"]
    assert ended("prune", "--older-than", "0", *both).text == "2 jobs deleted\n"
    assert ids(ended) == [2, 5]
    assert ended("prune", "--older-than", "0", "--json").objects[0]["deleted"] == 1
    assert ids(ended) == [5]
    assert not list((ended.folder / "work.db-logs").glob("*.log"))


def test_without_an_age_the_queues_say_what_goes(ended: Cli):
    ended("queue", "default", "--keep", "1ms")
    assert ended("prune").text == "2 jobs deleted\n"  # not the one that has failed
    assert ids(ended) == [2, 4, 5]


def test_what_makes_no_sense_is_refused(ended: Cli):
    assert "goes with --older-than" in ended.refused("prune", "--state", "done", code=2)
    wrong = ["prune", "--older-than", "0", "--state", "queued"]
    assert "invalid choice" in ended.refused(*wrong, code=2)
    assert "no queue 'oops'" in ended.refused("prune", "-q", "oops", code=2)
    assert ids(ended) == [1, 2, 3, 4, 5]


def test_nothing_is_pruned_where_there_is_nothing(sloth: Cli):
    assert "no jobs yet" in sloth("prune").err
    assert not sloth.db.exists()


IMPATIENT = """
import sys
from slothqueue.cli import main, progress
progress.SOON = -1
sys.exit(main())
"""


def test_a_bar_shows_on_a_terminal_and_is_gone_at_the_end(ended: Cli):
    ended.python = (sys.executable, "-c", IMPATIENT)
    with Terminal(ended, "prune", "--older-than", "0") as terminal:
        assert terminal.finish() == 0
        assert "deleting [####################] 100%" in terminal.seen
        last = terminal.seen.splitlines()[-1].rpartition("\x1b[K")[2]
        assert last == "4 jobs deleted"
    ended.add("--", "true")
    assert "100%" not in ended("prune", "--older-than", "0").err


# ---- what the doctor says of them ---------------------------------------------------------------


def looked_at(sloth: Cli) -> list[tuple[str, str, str | None]]:
    """Level, finding and remedy of each mark about queues."""
    marks = sloth("doctor", "--quick", "--json").objects
    of = [mark for mark in marks if mark["check"] == "queues"]
    return [(mark["level"], mark["found"], mark["remedy"]) for mark in of]


def test_the_doctor_tells_what_somebody_has_stopped(sloth: Cli):
    sloth.add("-q", "media", "--", "true")
    fine = ("ok", "none is paused or at a limit, and no job is held", None)
    assert looked_at(sloth) == [fine]
    sloth("pause", "media", "empty")
    sloth.add("--hold", "--", "true")
    sloth.add("-q", "media", "--in", "1h", "--", "true")  # it would wait anyway
    empty, media, held = looked_at(sloth)
    assert empty[1].startswith("empty is paused, just now by ") and "wait" not in empty[1]
    assert media[1].endswith("; 1 job waits")
    assert media[2] == "Its jobs start again after sloth resume media."
    assert held[:2] == ("note", "1 job is held")
    assert held[2] and "sloth unhold ID" in held[2] and "sloth list --state held" in held[2]
    sloth("resume", "--no-start", "media", "empty")
    sloth("unhold", "--no-start", "2")
    assert looked_at(sloth) == [fine]


def test_the_doctor_tells_which_queues_are_at_their_limit(sloth: Cli):
    with Sloth(sloth.db) as store:
        one, two = store.queue("one", concurrency=1), store.queue("two", rate=(2, "1m"))
        for queue in (one, two):
            queue.enqueue_many([1, 2, 3, 4])
        assert len(two.claim_many(4)) == 2
        assert one.claim()
        told = looked_at(sloth)
        assert [(level, found) for level, found, _ in told] == [
            ("note", "one is at its limit of 1 job at once; 3 jobs wait"),
            ("note", "two is at its limit of 2 starts in 1m; 2 jobs wait"),
        ]
        assert told[0][2] == "That is as it was asked for. Another limit: " + (
            "sloth queue one --concurrency N"
        )
        one.pause()
        assert "paused" in looked_at(sloth)[0][1] and len(looked_at(sloth)) == 2
