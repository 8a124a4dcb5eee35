"""Locks between processes, those of the command line eodispatch among them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path, mode: int, within: float) -> Iterator[None]:
    """Hold the lock of a file, which is created with a mode. TimeoutError: another process holds it for too long.

    The file stays: a process that had opened a deleted one would not see the lock of the next.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, mode), "r+b") as file:
        end = time.monotonic() + within
        while not _try_lock(file.fileno()):
            if time.monotonic() >= end:
                raise TimeoutError(f"another process holds {path}")
            time.sleep(0.05)
        yield  # closing the file unlocks it


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # the file system has no locks
        return True
