"""Where a store may live, by the text that the kernel gives of its mounts."""

from __future__ import annotations

import fcntl
import os

import pytest

from slothqueue.errors import StoreUnavailable
from slothqueue.storage import filesystem
from slothqueue.storage.filesystem import check, kind_of, locks_work

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
30 27 0:40 / /home rw - nfs4 server:/export/home rw,vers=4.2
31 30 8:1 / /home/ada/local rw - xfs /dev/sda1 rw
32 27 0:41 / /mnt/c rw - 9p C:\134 rw,aname=drvfs
33 27 0:42 / /media/My\040Disk rw - fuse.sshfs ada@far:/ rw
34 27 8:2 / /data rw - ext4 /dev/sdb rw
35 34 0:43 / /data rw - virtiofs shared rw
36 27 8:3 / /media/stick rw - fuseblk /dev/sdc1 rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/var/lib/work.db", "/", "ext4"),
        ("/", "/", "ext4"),
        ("/home/ada/work.db", "/home", "nfs4"),
        ("/home", "/home", "nfs4"),
        ("/homework/work.db", "/", "ext4"),
        ("/home/ada/local/deep/work.db", "/home/ada/local", "xfs"),
        ("/media/My Disk/work.db", "/media/My Disk", "fuse.sshfs"),
        ("/data/work.db", "/data", "virtiofs"),
        ("/media/stick/work.db", "/media/stick", "fuseblk"),
    ],
)
def test_the_longest_and_last_mount_tells_the_kind(path, point, kind):
    mount = kind_of(path, MOUNTS)
    assert mount is not None
    assert (mount.point, mount.kind) == (point, kind)


def test_escaped_sources_are_read_as_they_are():
    mount = kind_of("/mnt/c/work.db", MOUNTS)
    assert mount is not None
    assert mount.source == "C:\\"


def test_a_system_without_mountinfo_tells_nothing():
    assert kind_of("/var/work.db", "") is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/home/ada/work.db", ["/home", "network file system", "nfs4", "allow_unsafe_fs=True"]),
        ("/mnt/c/work.db", ["/mnt/c", "shared in from another system", "9p"]),
        ("/media/My Disk/work.db", ["/media/My Disk", "fuse.sshfs"]),
        ("/data/work.db", ["/data", "virtiofs"]),
    ],
)
def test_a_foreign_disk_is_refused_with_the_mount_the_reason_and_the_way_out(
    monkeypatch, path, words
):
    monkeypatch.setattr(filesystem, "_mounts", lambda: MOUNTS)
    with pytest.raises(StoreUnavailable) as caught:
        check(path)
    assert all(word in str(caught.value) for word in [path, *words])


FOREIGN = (
    "nfs nfs4 cifs smb3 smbfs ceph glusterfs fuse.glusterfs fuse.sshfs ncpfs afs 9p virtiofs drvfs "
    "fakeowner vboxsf vmhgfs fuse.vmhgfs-fuse lustre beegfs fuse.rclone fuse.s3fs gfs2"
)
LOCAL = "ext4 xfs btrfs zfs tmpfs overlay f2fs fuseblk fuse fuse.gocryptfs fuse.mergerfs"


@pytest.mark.parametrize("kind", FOREIGN.split())
def test_every_network_and_bridge_is_known(monkeypatch, kind):
    monkeypatch.setattr(filesystem, "_mounts", lambda: f"1 0 0:9 / / rw - {kind} there rw\n")
    with pytest.raises(StoreUnavailable, match=kind):
        check("/work.db")


@pytest.mark.parametrize("kind", LOCAL.split())
def test_disks_of_this_machine_are_welcome(monkeypatch, kind):
    monkeypatch.setattr(filesystem, "_mounts", lambda: f"1 0 0:9 / / rw - {kind} here rw\n")
    assert check("/somewhere/work.db") is None


@pytest.mark.parametrize(
    "folder",
    [
        "Dropbox",
        "Dropbox (Personal)",
        "OneDrive - Company",
        "Library/Mobile Documents/com~apple~CloudDocs",
        "Library/CloudStorage/GoogleDrive-ada@example.org",
        "iCloud Drive",
        "Google Drive/My Drive",
        "nextcloud",
    ],
)
def test_a_synced_folder_is_warned_about(monkeypatch, folder):
    monkeypatch.setattr(filesystem, "_mounts", lambda: "")
    sentence = check(f"/Users/ada/{folder}/work.db")
    assert sentence is not None
    assert "synced" in sentence


@pytest.mark.parametrize("folder", ["dropboxes", "Dropbox2", "box", "my driveway", "sync"])
def test_a_folder_that_only_sounds_like_it_is_not(monkeypatch, folder):
    monkeypatch.setattr(filesystem, "_mounts", lambda: "")
    assert check(f"/Users/ada/{folder}/Dropbox") is None


def test_a_link_into_a_synced_folder_does_not_hide_it(tmp_path):
    (tmp_path / "Dropbox").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "Dropbox")
    assert check(str(tmp_path / "link" / "work.db"))


def test_locks_work_here_and_nothing_is_left_behind(tmp_path):
    assert locks_work(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_locks_that_exclude_nobody_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, how: None)
    assert not locks_work(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_locks_that_are_refused_by_the_system_are_noticed(tmp_path, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert not locks_work(str(tmp_path))
