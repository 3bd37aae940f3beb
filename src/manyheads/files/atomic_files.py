"""Atomic files: read as a whole, and written so that a reader finds the whole new content or none of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from manyheads.errors import InputError

PICTURES = (".png", ".svg", ".pdf")


def read_whole(path: str | Path) -> bytes:
    """Read all bytes of a file.

    Raises:
        InputError: The file does not exist, is not a regular file, is empty, or cannot be read.
    """
    path = Path(path)
    try:
        # Reading a pipe or a device can block or never end.
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a regular file")
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:  # a path with a NUL character raises ValueError
        raise InputError(f"{path} cannot be read: {_reason(error)}") from error
    if not content:
        raise InputError(f"{path} is empty")
    return content


def check_writable(path: str | Path, *, force: bool) -> None:
    """Check, before the work begins, that `write_whole` will be able to write a file.

    Args:
        path: The file.
        force: Whether an existing file may be replaced.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no directory {path.parent}")
    for name in (path, _part(path)):  # both names can be too long
        try:
            name.exists()
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be written: {_reason(error)}") from None
    if path.exists() and not path.is_file():
        raise InputError(f"{path} cannot be written: it exists and is not a regular file")
    if os.path.lexists(path) and not force:
        raise _exists(path)
    if not _is_writable(path.parent):
        raise InputError(f"{path} cannot be written: the directory {path.parent} is not writable")


def make_directory(directory: str | Path) -> None:
    """Make a directory and its parents, unless they exist.

    Raises:
        InputError: A parent is not a directory, or the directory cannot be made.
    """
    directory = Path(directory)
    for path in (directory, *directory.parents):
        if os.path.lexists(path) and not os.path.isdir(path):
            raise InputError(f"{directory} cannot be made: {path} is not a directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{directory} cannot be made: {_reason(error)}") from None


@contextlib.contextmanager
def trial_directory(directory: str | Path) -> Iterator[None]:
    """Make a directory while the caller checks the files to be written there. Afterwards, remove the new directories.

    Raises:
        InputError: The directory cannot be made, or is not writable.
    """
    directory = Path(directory)
    new = [path for path in (directory, *directory.parents) if not os.path.lexists(path)]
    try:
        make_directory(directory)
        if not _is_writable(directory):
            raise InputError(f"the directory {directory} is not writable")
        yield
    finally:
        for path in new:  # the innermost directory first
            with contextlib.suppress(OSError):
                path.rmdir()


def picture_files(path: str | Path) -> tuple[Path, Path]:
    """The names of a picture's PNG and SVG files: an ending .png, .svg or .pdf is replaced, any other ending is kept.

    >>> [str(file) for file in picture_files("curve.pdf")], str(picture_files("a.b.c")[0])
    (['curve.png', 'curve.svg'], 'a.b.c.png')
    """
    path = Path(path)
    stem = path.stem if path.suffix in PICTURES else path.name
    return path.parent / f"{stem}.png", path.parent / f"{stem}.svg"


def _part(path: Path) -> Path:
    """The name of the temporary file, which has the content until it is complete."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def write_whole(path: str | Path, content: bytes, *, force: bool) -> None:
    """Write a file completely, or leave everything unchanged.

    Args:
        path: The file.
        content: Its new content.
        force: Whether to replace an existing file.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written.
    """
    path = Path(path)
    check_writable(path, force=force)
    part = _part(path)
    try:
        with open(part, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if force:
            os.replace(part, path)
        else:
            _rename_new(part, path)
        _sync_directory(path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {_reason(error)}") from error
    finally:  # also after Ctrl-C
        part.unlink(missing_ok=True)


def _rename_new(part: Path, path: Path) -> None:
    """Rename `part` to `path`, unless `path` exists; another process that creates it now does not lose its file."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # a file system without hard links: create the name first, then replace it
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            raise _exists(path) from None
        try:
            os.replace(part, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _is_writable(directory: Path) -> bool:
    # For root, os.access says yes everywhere, but writing into /proc fails: try it.
    try:
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def _sync_directory(directory: Path) -> None:
    # The new name must survive a power cut. A file system that cannot do this may raise an error.
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
