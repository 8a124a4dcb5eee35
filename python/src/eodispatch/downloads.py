"""The download of all results to a folder."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from string import Formatter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from . import locks
from .errors import DownloadFailed, ResultsMissing
from .files import File, fetch, safe_name
from .progress import bar_of
from .rasters import Dates
from .transport import user_agent

if TYPE_CHECKING:
    from .runs import Run

_AT_ONCE = 4


def download(run: Run, folder: Path, layout: str, progress: bool | None) -> list[Path]:
    """Download the files of all finished jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        return _download(run, folder, layout, progress)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes, the command line among them, from downloading to a folder."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locks.held(folder / ".eodispatch.lock", 0o666, 0))
        except TimeoutError:
            raise DownloadFailed(
                f"another process downloads to {folder}. Wait for its end, or choose another folder"
            ) from None
        yield


def _download(run: Run, folder: Path, layout: str, progress: bool | None) -> list[Path]:
    missing: dict[int, str] = {}
    record = _Record(folder)
    pending: list[Future[bool]] = []
    headers = {"User-Agent": user_agent()}
    bar = bar_of(progress, desc=f"{run}", unit="B", unit_scale=True)
    with bar, httpx.Client(timeout=60, follow_redirects=True, headers=headers) as http:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                for file, source in _files(run, folder, layout, missing):
                    record.claim(file.path, f"{source} of {run.connection.url}")
                    pending.append(pool.submit(fetch, http, file, bar.update))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    _raise_failures(pending)
    if missing:
        raise ResultsMissing(missing)
    return sorted(record.claimed)


class _Record:
    """What the files of a folder are, so that one is never taken for the same file of another job."""

    def __init__(self, folder: Path) -> None:
        self.claimed: list[Path] = []
        self._folder = folder
        self._file = folder / ".eodispatch.jsonl"
        self._sources: dict[str, str] = {}
        """By paths in lower case: on some systems those that differ only by case are one."""
        if self._file.exists():
            for line in self._file.read_text("utf-8").splitlines():
                try:
                    self._sources.update((name.lower(), source) for name, source in json.loads(line).items())
                except ValueError:
                    continue  # the end of a line that was being written

    def claim(self, path: Path, source: str) -> None:
        """Note that a path is for a file. Another one there is refused."""
        name = path.relative_to(self._folder).as_posix()
        known = self._sources.get(name.lower(), "another file" if path.exists() else None)
        if known not in (None, source):
            raise ValueError(f"{path} is {known}, not {source}: choose another layout or folder")
        if known is None:
            self._sources[name.lower()] = source
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({name: source}) + "\n")
        self.claimed.append(path)


def _raise_failures(pending: list[Future[bool]]) -> None:
    failures = [error for error in (future.exception() for future in pending) if error]
    for error in failures:
        if not isinstance(error, DownloadFailed):
            raise error
    if failures:
        shown = "\n".join(f"  {error}" for error in failures[:5])
        raise DownloadFailed(f"{len(failures)} files could not be downloaded. Run it again to try these:\n{shown}")


def _files(run: Run, folder: Path, layout: str, missing: dict[int, str]) -> Iterator[tuple[File, str]]:
    """The files, and what each is called in errors."""
    dated = Dates(run)
    for document in run.read_items(missing):
        item = dated.applied(document)
        job = int(item["id"])
        names = file_names(item["assets"])
        for key, asset in item["assets"].items():
            path = _place(folder, layout, _fields(item, key, names[key]))
            size = asset.get("file:size")

            def renew(job: int = job, key: str = key) -> str:
                return str(run.read_item(job)["assets"][key]["href"])

            file = File(asset["href"], path, renew, size, asset.get("file:checksum") or "")
            yield file, f"{key} of job {job}"


def _fields(item: Mapping[str, Any], key: str, file: str) -> dict[str, str]:
    properties = item["properties"]
    start = str(properties.get("start_datetime") or properties.get("datetime") or "")
    return {
        "name": str(properties.get("name") or item["id"]),
        "time": start.partition("T")[0] if start.endswith("T00:00:00Z") else start,
        "job": str(item["id"]),
        "asset": key,
        "file": file,
        "extension": PurePosixPath(file).suffix.lstrip("."),
    }


def _place(folder: Path, layout: str, fields: Mapping[str, str]) -> Path:
    """The path of a file, which is always in the folder."""
    unknown = {name for _, name, _, _ in Formatter().parse(layout) if name is not None} - set(fields)
    if unknown:
        raise ValueError(f"the layout names {', '.join(sorted(unknown))}; it can name: {', '.join(fields)}")
    safe = {name: safe_name(value) for name, value in fields.items()}
    path = folder.joinpath(*(safe_name(part.format(**safe)) for part in layout.split("/")))
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} leads out of {folder} by a link")
    return path


def file_names(assets: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A file name for each asset: that of its link, or its key. They differ by more than case."""
    names: dict[str, str] = {}
    for key in sorted(assets):
        href = str(assets[key].get("href", ""))
        name = "" if href[:5].lower() == "data:" else PurePosixPath(urlsplit(href).path).name
        if not PurePosixPath(name).suffix:
            name = key
            if not PurePosixPath(key).suffix:
                media = str(assets[key].get("type") or "").partition(";")[0]
                name += mimetypes.guess_extension(media) or ""
        name, taken = safe_name(name), {other.lower() for other in names.values()}
        number = 1
        while name.lower() in taken:
            name = safe_name(f"{number}-{key}-{name}")
            number += 1
        names[key] = name
    return names
