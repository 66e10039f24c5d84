"""Is this a place where a store may live: on a disk of this machine, with locks that work.

A network file system gives a lock away while its holder lives, or keeps it after its holder has
died, and tells nobody on the other machines of a write; a folder shared into a guest or container
does the same. Both are refused. A folder that a program copies to a cloud is only warned about.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..errors import StoreUnavailable

_NETWORK = """
    nfs nfs4 cifs smb2 smb3 smbfs ncpfs ncp afs openafs auristorfs coda ceph ceph-fuse cephfs
    glusterfs lustre beegfs gpfs mmfs orangefs pvfs2 panfs wekafs gfs2 ocfs2 davfs davfs2 quobyte
    moosefs mfs mfsmount lizardfs saunafs juicefs hdfs sshfs s3fs cvmfs cvmfs2 curlftpfs goofys
    gcsfuse geesefs gvfsd-fuse google-drive-ocamlfuse mount.davfs mountpoint-s3 blobfuse blobfuse2
    onedriver rclone rclonefs s3backer smbnetfs seadrive acd_cli httpfs ipfs keybase kbfsfuse
    expandrive dropbox insync plexdrive
"""
_BRIDGES = """
    9p virtiofs drvfs fakeowner grpcfuse osxfs vboxsf vmhgfs vmhgfs-fuse prl_fs prl_fs_freeze
    portal xrdp-chansrv
"""
_SYNCED = (
    "dropbox",
    "onedrive",
    "icloud drive",
    "iclouddrive",
    "mobile documents",  # where macOS keeps iCloud Drive
    "cloudstorage",  # and everybody else
    "google drive",
    "googledrive",
    "my drive",
    "nextcloud",
    "owncloud",
    "syncthing",
    "megasync",
    "pclouddrive",
    "pcloud drive",
    "box sync",
    "proton drive",
    "protondrive",
    "seafile",
    "yandex.disk",
    "tresorit",
    "creative cloud files",
)
_ACCOUNT = (" (", " - ", "-")  # "Dropbox (Personal)", "OneDrive - Company"


class Mount(NamedTuple):
    """Where a file system is mounted, what kind it is, and from where it comes."""

    point: str
    kind: str
    source: str


def check(path: str) -> str | None:
    """None if a store may live at this path, or one sentence of warning.

    The path need not exist. Raises StoreUnavailable for a network file system or a folder of
    another machine; not called with `allow_unsafe_fs=True`. Only Linux tells the kind of a file
    system cheaply; elsewhere only synced folders are noticed.
    """
    real = os.path.realpath(path)
    mount = mount_of(path)
    if mount is not None:
        reason = _why_not(mount.kind)
        if reason is not None:
            raise StoreUnavailable(
                f"{path} lies on {mount.point}, which is {reason} ({mount.kind}, {mount.source}): "
                "locks there do not tell whether a process lives. Put the store on a disk of this "
                "machine, or say allow_unsafe_fs=True and live with timed leases only."
            )
    return _warning(path, real)


def mount_of(path: str) -> Mount | None:
    """Where this path lies, links resolved; None where the system does not tell."""
    return kind_of(os.path.realpath(path), _mounts())


def kind_of(path: str, mountinfo_text: str) -> Mount | None:
    """The mount that an absolute path lies on, by the text of /proc/self/mountinfo (`proc(5)`).

    The longest mount point wins, and of equals the last, which hides the others.
    """
    best, length = "", -1
    path = path.rstrip("/") + "/"
    for line in mountinfo_text.splitlines():
        fields = line.split(" ", 5)
        if len(fields) < 6 or len(fields[4]) < length:
            continue
        point = _plain(fields[4]) if "\\" in fields[4] else fields[4]
        if path.startswith(point if point.endswith("/") else point + "/") and len(point) >= length:
            best, length = line, len(point)
    return _mount(best) if best else None


def _mount(line: str) -> Mount | None:
    front, dash, back = line.partition(" - ")
    rest = back.split(" ")
    if not dash or len(rest) < 2:
        return None
    return Mount(_plain(front.split(" ")[4]), _plain(rest[0]), _plain(rest[1]))


def _plain(text: str) -> str:
    # The kernel writes space, tab, newline and backslash as three octal digits.
    first, *rest = text.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)


def _mounts() -> str:
    try:
        with open("/proc/self/mountinfo", "rb", buffering=0) as file:
            return os.fsdecode(file.readall())
    except OSError:
        return ""  # not Linux, or hidden: the self-test of the locks remains


def _why_not(kind: str) -> str | None:
    name = kind.removeprefix("fuse.")
    if name in _NETWORK.split():
        return "a network file system"
    if name in _BRIDGES.split():
        return "a folder shared in from another system"
    return None


def _warning(path: str, real: str) -> str | None:
    for part in real.split(os.sep)[:-1]:
        if _is_synced(part.lower()):
            return (
                f'{path} lies in "{part}", which looks like a folder that is synced to other '
                "machines: a copy made in the middle of a write is broken, and a copy brought back "
                "loses jobs. Put the store elsewhere."
            )
    return None


def _is_synced(name: str) -> bool:
    if not name.startswith(_SYNCED):
        return False
    rests = (name[len(start) :] for start in _SYNCED if name.startswith(start))
    return any(not rest or rest.startswith(_ACCOUNT) for rest in rests)


def locks_work(directory: str) -> bool:
    """Whether two opens of one file in this directory exclude each other with `flock`.

    False where there is no flock at all. Raises OSError if nothing can be written there. Leaves
    nothing behind.
    """
    try:
        import fcntl  # not there on Windows
    except ImportError:
        return False
    path = os.path.join(directory, f".lock-test-{os.getpid()}-{os.urandom(4).hex()}")
    first = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    second = -1
    try:
        second = os.open(path, os.O_RDONLY)
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _refused(second)
    except OSError:
        return False
    finally:
        os.unlink(path)
        os.close(first)
        if second >= 0:
            os.close(second)


def locks_seem_to_work(directory: str) -> bool:
    """The same, told by locks on the directory itself: nothing is written."""
    try:
        import fcntl  # not there on Windows
    except ImportError:
        return False
    descriptors = [os.open(directory, os.O_RDONLY | os.O_CLOEXEC) for _ in range(2)]
    try:
        fcntl.flock(descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _refused(descriptors[1])
    except BlockingIOError:  # somebody else tries the same right now, and excludes us
        return True
    except OSError:
        return False
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _refused(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
