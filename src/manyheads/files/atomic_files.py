"""Whole files: read at once, and written so that a reader finds all of it or nothing."""

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
    for name in (path, _part(path)):  # either may be longer than a name can be
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


def make_directory(directory: Path) -> None:
    """Make the directory and those above it, if they are not there."""
    for path in (directory, *directory.parents):
        if os.path.lexists(path) and not os.path.isdir(path):
            raise InputError(f"{directory} cannot be made: {path} is not a directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{directory} cannot be made: {_reason(error)}") from None


@contextlib.contextmanager
def tried_directory(directory: Path) -> Iterator[None]:
    """Have the directory for as long as it takes to see what could be written; what had to be made goes again."""
    new = [path for path in (directory, *directory.parents) if not os.path.lexists(path)]
    try:
        make_directory(directory)
        if not _is_writable(directory):
            raise InputError(f"the directory {directory} is not writable")
        yield
    finally:
        for path in new:  # the innermost first
            with contextlib.suppress(OSError):
                path.rmdir()


def picture_files(path: Path) -> tuple[Path, Path]:
    """The PNG and the SVG that a picture is written as; of the name given, only a picture's own ending is taken off.

    >>> [str(file) for file in picture_files(Path("curve.pdf"))], str(picture_files(Path("a.b.c"))[0])
    (['curve.png', 'curve.svg'], 'a.b.c.png')
    """
    stem = path.stem if path.suffix in PICTURES else path.name
    return path.parent / f"{stem}.png", path.parent / f"{stem}.svg"


def _part(path: Path) -> Path:
    """Where the content stands until it is whole."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def write_whole(path: str | Path, content: bytes, *, force: bool) -> None:
    """Make `path` hold `content`, or leave everything as it was; an existing file is replaced only with `force`."""
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


def _is_writable(directory: Path) -> bool:
    # Root may write everywhere, says os.access, but not in /proc: only trying tells.
    try:
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


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
