"""The stream of what changes in a task."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import websockets
from websockets.asyncio.client import connect

from .errors import BrokerError, Unreachable, refusal

if TYPE_CHECKING:
    from .job import Job
    from .task import Task

_MOST_BYTES = 64 << 20
"""Of a message: 1,000 jobs."""


@dataclass(frozen=True)
class Event:
    """What has changed."""

    full: bool
    """Whether `jobs` are all there are. The first event of each connection is full, so that none is missed."""
    status: str
    """The status of the task."""
    counts: Mapping[str, int]
    """How many jobs of the task have each status."""
    jobs: tuple[Job, ...]
    """The jobs that have changed."""
    removed: tuple[int, ...]
    """The numbers of jobs that were deleted."""


class _Stream(connect):
    """A connection that follows no redirect, which would take the token to another address."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Leave a redirect as the error that it is."""
        return exc


async def of_task(task: Task) -> AsyncIterator[Event]:
    """The events of a task until its end, or until it waits for its owner; lost connections are made again."""
    pause, connected = 0.5, False
    while True:
        try:
            async for event in _of_connection(task):
                pause, connected = 0.5, True
                yield event
                if task.ended or task.waits_for_you:
                    return
        except (OSError, websockets.WebSocketException, Unreachable) as error:
            refused = _refusal(error)
            if refused is not None and refused.status < 500 and refused.status != 429:
                raise refused from error
            if not connected and refused is None:
                raise Unreachable(f"{task.connection.url} does not respond: {error}") from error
        await asyncio.sleep(pause)
        pause = min(2 * pause, 30)


async def _of_connection(task: Task) -> AsyncIterator[Event]:
    from .job import Job

    transport = task.connection.transport
    address = "ws" + transport.address.removeprefix("http") + "/ws" + task.path + "?changes=true&parameters=false"
    headers = await asyncio.to_thread(transport.authorization)  # it may renew the token
    full = False
    jobs: list[dict[str, Any]] = []
    removed: list[int] = []
    async with _Stream(address, additional_headers=headers, max_size=_MOST_BYTES, open_timeout=60) as socket:
        async for text in socket:
            message = json.loads(text)
            kind, data = message.get("type"), message.get("data") or {}
            if kind == "error":
                return  # such as an expired token; the next connection shows whether it goes on
            if kind not in ("status", "changes"):
                continue
            full = full or kind == "status"
            jobs += _note(task, kind, data)
            removed += data.get("removed_processing_jobs") or ()
            if message.get("more"):  # the state of a large task comes in parts
                continue
            shown = tuple(Job(task.connection, raw) for raw in jobs)
            yield Event(full, task.status, task.counts, shown, tuple(removed))
            full, jobs, removed = False, [], []


def _note(task: Task, kind: str, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Note what a message says of the task, and return the jobs in it."""
    if "id" in data:
        task.raw = {name: value for name, value in data.items() if name != "jobs"}
        return list(data.get("jobs") or ())
    for raw in data.get("upscaling_tasks") or ():
        task.raw = dict(raw)
    return list(data.get("processing_jobs") or ())


def _refusal(error: Exception) -> BrokerError | None:
    """The refusal of a connection; None if the connection was lost."""
    if not isinstance(error, websockets.InvalidStatus):
        return None
    response = error.response
    try:
        body = json.loads(response.body or b"")
    except ValueError:
        body = None
    found = refusal(response.status_code, body, response.headers.get("Retry-After"))
    return found or BrokerError(f"the stream is refused: {response.status_code}", status=response.status_code)
