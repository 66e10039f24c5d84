"""Functions that the tests of the pool have their children run. Some of them behave badly."""

from __future__ import annotations

import datetime
import os
import resource
import signal
import subprocess
import sys
import threading
import time

from slothqueue.context import Retry, current_job

calls = 0


def count():
    global calls
    calls += 1
    return [os.getpid(), calls]


def echo(*args, **kwargs):
    return [args, kwargs]


def tomorrow(day: datetime.date, *, sizes: dict[int, bytes]) -> tuple[datetime.date, bytes]:
    return day + datetime.timedelta(days=1), sizes[1]


def make(size):
    return "x" * size


def who():
    job = current_job()
    return [job.id, job.attempt, job.token]


def speak():
    job = current_job()
    job.heartbeat()
    job.progress(0.5, "half")
    threading.Thread(target=late, args=(job,)).start()


def late(job):
    time.sleep(0.05)
    job.progress(1, "too late")
    job.heartbeat()


def nap(seconds):
    time.sleep(seconds)


def leave_a_thread():
    threading.Thread(target=time.sleep, args=(600,)).start()


def until_told(started=None):
    if started:
        open(started, "w").close()
    while not current_job().stopping:
        time.sleep(0.01)
    return "told"


def die(number):
    os.kill(os.getpid(), number)
    return "alive"


def say_and_die(text):
    print(text)
    os.kill(os.getpid(), signal.SIGKILL)


def leave(code):
    os._exit(code)


def end(code):
    sys.exit(code)


def family(path):
    commands = (["sleep", "600"], ["sh", "-c", "sleep 600; true"])
    children = [subprocess.Popen(command) for command in commands]
    with open(path + ".new", "w") as file:
        file.write(" ".join(str(each.pid) for each in children))
    os.rename(path + ".new", path)
    time.sleep(600)


def daemon():
    pid = os.fork()
    if pid == 0:
        current_job().heartbeat()
        time.sleep(600)
        os._exit(0)
    return pid


def let_a_fork_speak():
    pid = os.fork()
    if pid == 0:
        current_job().heartbeat()
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def fork_and_end_it():
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        os.kill(pid, signal.SIGTERM)  # again, for it may come too early, before the fork is itself
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])


def read_input():
    return sys.stdin.read()


def disturb():
    writing = "for n in 3 4 5 6 7 8 9; do echo '{}' >&$n; done; true"
    subprocess.run(writing, shell=True, close_fds=False, stderr=subprocess.DEVNULL)
    os.environ["X"] = "1"
    print("said", flush=False)
    sys.stdout.write("without a newline")


def exhaust():
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 300_000_000
    resource.setrlimit(resource.RLIMIT_AS, (used, resource.getrlimit(resource.RLIMIT_AS)[1]))
    hoard: list[str] = []
    while len(hoard) < 20_000:
        hoard.append("x" * 100_000 + str(len(hoard)))
    return "there was no end to it"


class Odd(Exception):
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __str__(self):
        raise KeyError

    __repr__ = __str__


def odd():
    raise Odd(1, 2)


def wish():
    raise Retry("30s", "busy")


async def later():
    return 1
