"""WriterLock: one process writes a store at a time, by a lock on the file of the store itself."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from manyheads.errors import InputError

# Why a lock on a byte range of the store, and no file beside it:
# - The system keeps such a lock by device and inode. Symlinks, hard links and bind mounts lead to the same lock.
# - It writes nothing: no other file can be damaged, and a full disk does not matter. It ends with its process.
# - It works between the machines of a network file system that has locks at all. flock does not fit: on NFS and on
#   macOS it conflicts with the locks that SQLite itself takes on the same file.
# SQLite locks the bytes 2^30 to 2^30 + 511, and no database is longer than 2^48 bytes: this byte is free.
BYTE = 2**62
# The length of the range is the id of the process, so that a second writer learns who the first writer is.
RANGE = "hhqqi"  # Linux's struct flock: kind, origin, first byte, length, process
# It must be a lock of an open file description: SQLite gives up all ordinary locks of its process on the file after
# each transaction. A system without such locks (macOS) has flock on an empty file instead, in a directory of this user
# for temporary files. The name of that file is the device and inode of the store; other machines do not see it.
HAS_OPEN_FILE_LOCKS = hasattr(fcntl, "F_OFD_SETLK")

JOURNALS = {"-journal": (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7",), "-wal": (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")}


@dataclass(frozen=True)
class WriterLock:
    """The lock of a store that this process writes."""

    store: Path
    descriptor: int  # of the store
    created: bool  # whether the store did not exist before
    other: int | None = None  # the descriptor of the locked file, if that is not the store

    @classmethod
    def acquire(cls, store: Path) -> WriterLock:
        """Take the lock; create the store as an empty file if there is none.

        Raises:
            InputError: The file cannot be written, another process has the lock (the message names that process), or
                the file system has no locks.
        """
        created = not os.path.lexists(store)
        try:
            # without O_NONBLOCK, opening a pipe would wait for its other end
            descriptor = os.open(store, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise InputError(f"the store {store} cannot be written: {error.strerror}") from None
        lock = cls(store, descriptor, created)
        try:
            if HAS_OPEN_FILE_LOCKS:
                wanted = struct.pack(RANGE, fcntl.F_WRLCK, os.SEEK_SET, BYTE, os.getpid(), 0)
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
            else:
                lock = replace(lock, other=_locked_file(*lock._file))
        except (BlockingIOError, PermissionError):
            holder = lock._holder()
            os.close(descriptor)
            raise InputError(f"the store {store} is being written by {holder}: wait for it or stop it") from None
        except OSError as error:
            lock.abandon()
            raise InputError(f"the store {store} cannot be locked: {error.strerror}") from None
        return lock

    def check_same(self) -> None:
        """Make sure that the name still leads to the file that is locked.

        Raises:
            InputError: The file was replaced.
        """
        with contextlib.suppress(OSError):
            state = os.stat(self.store)
            if (state.st_dev, state.st_ino) == self._file:
                return
        raise InputError(f"the store {self.store} was replaced by another file while it was opened: try again")

    def release(self) -> None:
        """Release the lock. Call it after the connection is closed: this ends SQLite's locks on the file, too."""
        os.close(self.descriptor)
        if self.other is not None:
            os.close(self.other)

    def abandon(self) -> None:
        """Release the lock of a store that could not be opened, and remove the empty file that was made for it."""
        with contextlib.suppress(OSError, InputError):
            if self.created and os.fstat(self.descriptor).st_size == 0:
                self.check_same()
                os.unlink(self.store)
        self.release()

    @property
    def _file(self) -> tuple[int, int]:
        state = os.fstat(self.descriptor)
        return state.st_dev, state.st_ino

    def _holder(self) -> str:
        if not HAS_OPEN_FILE_LOCKS:
            return "another process"
        asked = struct.pack(RANGE, fcntl.F_WRLCK, os.SEEK_SET, BYTE, 1, 0)
        kind, _, start, process, _ = struct.unpack(RANGE, fcntl.fcntl(self.descriptor, fcntl.F_OFD_GETLK, asked))
        if kind == fcntl.F_UNLCK or start != BYTE:  # it has ended meanwhile
            return "another process"
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return f"process {process} of another machine or container"
        except OSError:  # a process of another user
            pass
        return f"process {process}"


def _locked_file(device: int, inode: int) -> int:
    """Lock the file that stands for a store. It is empty and stays: another process may have opened it already."""
    directory = Path(tempfile.gettempdir(), f"manyheads-locks-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(directory / f"{device}-{inode}", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def refuse_foreign_journal(store: Path) -> None:
    """Refuse a file that SQLite would take for a journal of this store, and delete, although it is none.

    Raises:
        InputError: There is a file with such a name and another content.
    """
    for ending, beginnings in JOURNALS.items():
        path = store.resolve().with_name(store.resolve().name + ending)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        except OSError:  # a symlink, or a file of another user
            start = b"?"
        else:
            start = os.read(descriptor, 8) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b"?"
            os.close(descriptor)
        # a journal that the system wrote only in part when it lost its power is empty or has zeros
        if start.strip(b"\0") and not start.startswith(beginnings):
            raise InputError(
                f"{path} is not a journal of the store {store}, but SQLite would delete it: rename one of the two"
            )
