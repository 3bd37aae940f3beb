"""WriterLock: one writer for a store. The operating system holds the lock, so that a crash of the writer frees it."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from manyheads.errors import InputError


@dataclass(frozen=True)
class WriterLock:
    """An open, locked file beside the store; its text names the holder."""

    descriptor: int

    @classmethod
    def acquire(cls, store: Path) -> WriterLock:
        """Take the lock.

        Raises:
            InputError: Another process has the lock; the message names it.
        """
        path = store.with_name(store.name + ".lock")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError(f"the store {store} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise InputError(f"the store {store} is being written by {holder}: wait for it or stop it") from None
        os.ftruncate(descriptor, 0)
        note = {"pid": os.getpid(), "host": platform.node(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Release the lock. The file stays: a next writer may have opened it already."""
        os.close(self.descriptor)


def _holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {note['pid']} on {note['host']} since {note['since']}"
    except (ValueError, KeyError, TypeError):  # the holder has just started and not yet written its name
        return "another process"
