"""Whole files: read at once, and written so that a reader finds all of it or nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from manyheads.errors import InputError


def read_whole(path: str | Path) -> bytes:
    """All bytes of a regular file that is not empty."""
    path = Path(path)
    try:
        # A pipe or a device could block or never end.
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a regular file")
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise InputError(f"{path} cannot be read: {_reason(error)}") from error
    if not content:
        raise InputError(f"{path} is empty")
    return content


def check_writable(path: str | Path, *, force: bool) -> None:
    """Refuse at once what `write_whole` would refuse after the work is done."""
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no directory {path.parent}")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} cannot be written: it exists and is not a regular file")
    if os.path.lexists(path) and not force:
        raise _exists(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: the directory {path.parent} is not writable")


def write_whole(path: str | Path, content: bytes, *, force: bool) -> None:
    """Make `path` hold `content`, or leave everything as it was; an existing file is replaced only with `force`."""
    path = Path(path)
    check_writable(path, force=force)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if force:
            os.replace(part, path)
        else:
            _appear(part, path)
        _sync_directory(path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {_reason(error)}") from error
    finally:  # also after Ctrl-C
        part.unlink(missing_ok=True)


def _appear(part: Path, path: Path) -> None:
    """Give `part` the name `path` unless that name is taken, also when somebody takes it at this moment."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # a file system without hard links: take the name first, then fill it in one step
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            raise _exists(path) from None
        try:
            os.replace(part, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _sync_directory(directory: Path) -> None:
    # The new name must survive a power cut too; a file system that cannot promise this may refuse.
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exists(path: Path) -> InputError:
    return InputError(f"{path} already exists and is not overwritten without force")


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
