"""Atomic files: written so that a reader finds the whole new content or none of it, also for several files at once."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import stat
import tempfile
import threading
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from types import FrameType

from manyheads.errors import InputError, path_of
from manyheads.files.door import reason

PICTURES = (".png", ".svg", ".pdf")
ENDINGS = ("SIGHUP", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU")  # signals that end a process


def check_writable(path: str | Path, *, force: bool) -> None:
    """Check, before the work begins, that `write_whole` will be able to write a file.

    Args:
        path: The file.
        force: Whether an existing file may be replaced.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written.
    """
    path = path_of(path)
    with _writing(path):
        if not path.parent.is_dir():
            raise InputError(f"{path} cannot be written: there is no directory {path.parent}")
        for name in (path, _hidden(path, "part")):  # both names can be too long
            name.exists()
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
    try:
        for path in (directory, *directory.parents):
            if os.path.lexists(path) and not os.path.isdir(path):
                raise InputError(f"{directory} cannot be made: {path} is not a directory")
        directory.mkdir(parents=True, exist_ok=True)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{directory} cannot be made: {reason(error)}") from None


@contextlib.contextmanager
def new_directory(directory: str | Path) -> Iterator[None]:
    """Make a directory while the caller checks or writes its files. Afterwards, remove new directories without files.

    A signal that ends the process first removes them, too.

    Raises:
        InputError: The directory cannot be made, or is not writable.
    """
    directory = path_of(directory)
    new = [path for path in (directory, *directory.parents) if not os.path.lexists(path)]
    with _undo_on_signals():
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
    path = path_of(path)
    stem = path.stem if path.suffix in PICTURES else path.name
    return path.parent / f"{stem}.png", path.parent / f"{stem}.svg"


def write_whole(path: str | Path, content: bytes, *, force: bool) -> None:
    """Write a file completely, or leave everything unchanged.

    Args:
        path: The file.
        content: Its new content.
        force: Whether to replace an existing file. The new file has the permissions of the file that it replaces.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written.
    """
    write_together({path: content}, force=force)


def write_together(files: Mapping[str | Path, bytes] | Mapping[Path, bytes], *, force: bool | Container[Path]) -> None:
    """Write several files: all of them completely, or none.

    First every content is written to a temporary file beside its place, so that a full disk is noticed before anything
    changes. Then the files are renamed. If a renaming fails, those before it are undone. A signal that ends the process
    first undoes the writing, too. Only the loss of power between two renamings can leave some of the files.

    Args:
        files: The content of each file.
        force: Whether to replace existing files, or the files that may be replaced. A new file has the permissions of
            the file that it replaces.

    Raises:
        InputError: A file exists and must not be replaced, two names lead to the same file, or a file cannot be
            written.
    """
    contents = {Path(path): content for path, content in files.items()}
    forced = {path for path in contents if (force if isinstance(force, bool) else path in force)}
    for path in contents:
        check_writable(path, force=path in forced)
    if len({(os.path.realpath(path.parent), path.name) for path in contents}) < len(contents):
        raise InputError(f"two of the files to write are the same file: {', '.join(map(str, contents))}")
    parts = {path: _hidden(path, "part") for path in contents}
    olds = {path: _hidden(path, "old") for path in contents}
    renamed: list[Path] = []
    with _undo_on_signals():
        try:
            for path, content in contents.items():
                with _writing(path):
                    _write_part(parts[path], content, path)
            for path in contents:
                with _writing(path):
                    if path in forced:
                        _keep_old(path, olds[path])
                    renamed.append(path)  # before the renaming: an interruption right after it must undo it
                    if path in forced:
                        os.replace(parts[path], path)
                    else:
                        _rename_new(parts[path], path)
        except BaseException:  # also Ctrl-C
            for path in renamed:
                _undo(path, parts[path], olds[path])
            raise
        finally:
            for path in (*parts.values(), *olds.values()):
                path.unlink(missing_ok=True)
    for directory in {path.parent for path in contents}:
        _sync_directory(directory)


def _hidden(path: Path, ending: str) -> Path:
    """The name of a temporary file: "part" has the new content until it is complete, "old" the content before it."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{ending}")


def _write_part(part: Path, content: bytes, path: Path) -> None:
    before = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    # The content of a private file is never readable for others, not even before it has its name.
    handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if before is None else before & 0o600)
    with open(handle, "wb") as file:
        file.write(content)
        file.flush()
        if before is not None:
            os.chmod(part, before)
        os.fsync(file.fileno())


def _keep_old(path: Path, old: Path) -> None:
    """Give the file that is replaced a second name, from which it can be restored."""
    if not os.path.lexists(path):
        return
    try:
        os.link(path, old, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system without hard links
        old.write_bytes(path.read_bytes())
        os.chmod(old, stat.S_IMODE(path.stat().st_mode))


def _undo(path: Path, part: Path, old: Path) -> None:
    if os.path.lexists(old):
        os.replace(old, path)
        return
    with contextlib.suppress(FileNotFoundError):
        # The file is ours if its part was renamed, or is the same file. Otherwise it is another writer's.
        if not os.path.lexists(part) or os.path.samefile(part, path):
            path.unlink()


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


class _Ended(BaseException):
    """A signal that ends the process arrived while files were written."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _undo_on_signals() -> Iterator[None]:
    """Let a signal that ends the process raise an exception in the block; after the block has undone its work, end.

    Python can do this in the main thread only. A signal that the caller handles or ignores keeps its handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    known = [getattr(signal, name) for name in ENDINGS if hasattr(signal, name)]
    changed = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for other in changed:
            signal.signal(other, signal.SIG_IGN)  # the work is undone once
        raise _Ended(number)

    try:
        for number in changed:
            signal.signal(number, end)
        yield
    except _Ended as ended:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(ended.number)
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a path with a NUL character raises ValueError
        raise InputError(f"{path} cannot be written: {reason(error)}") from error


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
    return InputError(f"{path} already exists and is not overwritten without --force (in Python force=True)")
