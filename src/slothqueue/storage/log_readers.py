"""Who is reading the store at this moment, by the kernel's word.

A reader in the middle of a transaction holds a shared lock on one of five bytes of the `-shm`; the
log cannot be used from its start again before that is gone. Sources: `proc(5)` for /proc/locks,
https://sqlite.org/walformat.html for the bytes.
"""

from __future__ import annotations

import os

READ_MARKS = range(123, 128)


def log_readers(path: str) -> set[tuple[int, int]]:
    """Every process of this machine that reads now, with the byte that it holds; may be empty
    where the system does not tell."""
    try:
        inode = os.stat(path + "-shm").st_ino
        with open("/proc/locks", encoding="ascii") as file:
            return parse(file.read(), inode)
    except OSError:
        return set()


def parse(text: str, inode: int) -> set[tuple[int, int]]:
    """The same by the text of /proc/locks: `1: POSIX  ADVISORY  READ 123 08:01:456 124 124`."""
    found = set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 8 or fields[1] != "POSIX" or not fields[4].isdecimal():
            continue
        if fields[5].rpartition(":")[2] == str(inode) and fields[6].isdecimal():
            found.add((int(fields[4]), int(fields[6])))
    return {(pid, byte) for pid, byte in found if byte in READ_MARKS}
