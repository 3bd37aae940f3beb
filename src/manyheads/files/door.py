"""The door for every file that is read: kind, size and depth are checked first, and every failure is one sentence.

A stranger's file can be a pipe that never ends, claim more than it holds, or nest a million brackets. Each reader of
this package opens its file here, and parses it inside `reading`, which turns every error into an `InputError`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from manyheads.errors import InputError

SETTINGS_LIMIT = 2**26  # bytes of a config: real ones have some kilobytes
TEXT_LIMIT = 2**28  # bytes of an edge list, of labels, or of a tokenizer: the largest vocabularies have 40 MB
DEEPEST = 100  # brackets inside brackets in JSON; real files have fewer than 10
PART = 2**20  # bytes that are unpacked at once
STEP = 2**12  # packed bytes that are read at once: the bytes after each member are copied, and members can be tiny
RATIO, SMALL = 30, 2**24  # rows unpack to 6 times their bytes; a bomb, to 1,000 times
DAMAGED = "or is truncated or damaged"
JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


@contextlib.contextmanager
def reading(path: str | Path, fault: str) -> Iterator[None]:
    """Turn every error of the block into an `InputError` that names the file.

    Args:
        path: The file.
        fault: The rest of the sentence about a file that cannot be parsed, such as "is not a GGUF file, or is damaged".

    Raises:
        InputError: The block raised an error, except for an interruption.
    """
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise InputError(f"{path} cannot be read: it does not fit into the memory of this machine") from error
    except Exception as error:  # zlib.error, RecursionError, OverflowError, KeyError, numbers of 5,000 digits, …
        raise InputError(f"{path} {fault}") from error
    except BaseException as error:  # a panic of a library in Rust is no Exception
        if type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{path} {fault}") from error


def exists(path: str | Path, *, any_kind: bool = False) -> bool:
    """Whether there is a regular file that can be read.

    Args:
        path: The file.
        any_kind: Whether a directory, a pipe or a device counts as well.

    Raises:
        InputError: The name is too long, or a directory on the way cannot be searched.
    """
    try:
        return stat.S_ISREG(os.stat(path).st_mode) or any_kind
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from error


@contextlib.contextmanager
def open_file(path: str | Path, *, most: int | None = None) -> Iterator[tuple[IO[bytes], int]]:
    """Open a regular file, and check its size before anything is read.

    Args:
        path: The file.
        most: The largest size in bytes; None for files of any size that are read in parts.

    Yields:
        The open file, and its size in bytes.

    Raises:
        InputError: The file does not exist, is not a regular file, is too large, or cannot be opened.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits until something writes into it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:  # a path with a NUL character raises ValueError
        raise InputError(f"{path} cannot be read: {reason(error)}") from error
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode):
        os.close(handle)
        raise InputError(f"{path} is not a regular file")
    with open(handle, "rb") as file:
        size = state.st_size
        if most is not None and size > most:
            raise InputError(f"{path} has {size:,} bytes, but at most {most:,} can be read: is it the right file?")
        yield file, size


def read_bytes(path: str | Path, *, most: int | None = None) -> bytes:
    """Read all bytes of a file.

    Args:
        path: The file.
        most: The largest size in bytes; None for half of this machine's memory.

    Raises:
        InputError: The file does not exist, is not a regular file, is empty or too large, or cannot be read.
    """
    limit = memory_limit() if most is None else most
    with reading(path, "cannot be read"), open_file(path, most=limit) as (file, size):
        content = file.read(size)
    if not size:
        raise InputError(f"{path} is empty")
    if len(content) < size:
        raise InputError(f"{path} cannot be read: it became shorter while it was read")
    return content


def read_text(path: str | Path, *, most: int = TEXT_LIMIT) -> str:
    """Read a UTF-8 text file; a byte-order mark is left out.

    Raises:
        InputError: The file cannot be read, is too large, or is not UTF-8 text.
    """
    content = read_bytes(path, most=most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text") from error


def read_json(path: str | Path, *, most: int = SETTINGS_LIMIT) -> object:
    """Read a JSON file.

    Raises:
        InputError: The file cannot be read, is too large, or is not JSON.
    """
    return parse_json(read_text(path, most=most), path)


def parse_json(text: str | bytes, path: str | Path) -> object:
    """The value of JSON text, with at most 100 brackets inside brackets.

    Args:
        text: The text.
        path: The file that has the text, for the message.

    Raises:
        InputError: The text is not JSON, is nested too deeply, or has a number of over 4,300 digits.
    """
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if content.count(b"[") + content.count(b"{") > DEEPEST:
        plain = np.frombuffer(JSON_STRING.sub(b"", content), dtype=np.uint8)
        steps = np.isin(plain, (ord("["), ord("{"))).astype(np.int8) - np.isin(plain, (ord("]"), ord("}")))
        if np.cumsum(steps, dtype=np.int32).max(initial=0) > DEEPEST:
            raise InputError(f"{path} is not JSON that can be read: over {DEEPEST} brackets inside brackets")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON, {DAMAGED}") from error


def unpack_lines(path: str | Path, *, most: int = TEXT_LIMIT, longest: int = PART) -> Iterator[bytes]:
    """The lines of a gzip file, unpacked in parts. At most 30 times the bytes of the file are unpacked.

    Args:
        path: The file.
        most: The largest size of the file in bytes.
        longest: The largest length of a line in bytes.

    Yields:
        The lines without their ends.

    Raises:
        InputError: The file cannot be read, is not a gzip file or is truncated, or unpacks to too many bytes.
    """
    rest = b""
    with reading(path, f"is not a gzip file, {DAMAGED}"), open_file(path, most=most) as (file, size):
        for part in _unpack(file, max(SMALL, RATIO * size), path):
            *lines, rest = (rest + part).split(b"\n")
            if max(map(len, [*lines, rest])) > longest:
                raise InputError(f"{path} has a line of over {longest:,} bytes")
            yield from lines
    if rest:
        yield rest


def _unpack(file: IO[bytes], room: int, path: str | Path) -> Iterator[bytes]:
    """The content of an open gzip file in parts, at most `room` bytes; a file can have several members."""
    packed, member = b"", zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    while True:
        packed = packed or file.read(STEP)
        if member.eof:
            if not packed:
                return
            packed = packed.lstrip(b"\0")  # gzip allows zeros after its last member
            if not packed:
                continue
            member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        if not packed:
            raise EOFError("the file ends before its last member does")
        part = member.decompress(packed, PART)
        packed = member.unused_data if member.eof else member.unconsumed_tail
        room -= len(part)
        if room < 0:
            raise InputError(f"{path} unpacks to over {RATIO} times its bytes: it is damaged or hostile")
        yield part


def memory_limit() -> int:
    """The largest number of bytes that one file may fill: half of the memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):  # a system that does not say
        return 2**33


def reason(error: Exception) -> str:
    """The reason of an error of the operating system, without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
