"""Times and time spans as openEO writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, Union

Moment = Union[str, date, datetime, None]
Time = Union[str, date, datetime, Sequence[Moment]]
"""A day, month or year such as "2024-06"; FROM/TO; or the two ends, of which the second does not belong to the span."""

_HOW = "write 2024, 2024-06, 2024-06-01, 2024-06-01/2024-07-01, or two dates"

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")


def to_interval(time: Time) -> list[str | None]:
    """The beginning and the end of a time span; None for an open one."""
    if isinstance(time, str) and "/" not in time:
        return list(_whole(time))
    if isinstance(time, datetime) or not isinstance(time, (str, date, Sequence)):
        raise ValueError(f"{time!r} is no time span: {_HOW}")
    if isinstance(time, date):
        return [time.isoformat(), (time + timedelta(days=1)).isoformat()]
    ends = time.split("/") if isinstance(time, str) else list(time)
    if len(ends) != 2:
        raise ValueError(f"{time!r} is no time span: {_HOW}")
    start, end = (to_text(moment) for moment in ends)
    if not all(moment is None or _DATE.fullmatch(moment) for moment in (start, end)):
        raise ValueError(f"{time!r} is no time span: write both dates as in 2024-06-01/2024-07-01")
    if start and end and len(start) == len(end) and end < start:
        raise ValueError(f"the time span {time!r} ends before it begins")
    return [start, end]


def to_text(moment: Moment) -> str | None:
    """A time as openEO writes it: a day, or a time in UTC."""
    if moment is None or moment in ("", ".."):
        return None
    if isinstance(moment, datetime):
        if moment.tzinfo:
            moment = moment.astimezone(timezone.utc)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return moment if isinstance(moment, str) else moment.isoformat()


def span_of(value: Any) -> tuple[str | None, str | None] | None:
    """The time span that the value of a parameter stands for; None for another value."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        return value, None
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        dates = [end for end in value if isinstance(end, str) and _DATE.fullmatch(end)]
        if dates and len(dates) + list(value).count(None) == 2:
            return value[0], value[1]
    return None


def to_datetime(text: str) -> datetime:
    """A time in UTC."""
    moment = datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))
    return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _whole(text: str) -> tuple[str, str]:
    """The span of a day, a month or a year."""
    parts = [int(part) for part in text.split("-")] if re.fullmatch(r"\d{4}(-\d{2}){0,2}", text) else []
    if not parts:
        raise ValueError(f"{text!r} is no time span: {_HOW}")
    year, month, day = (*parts, 1, 1)[:3]
    try:
        start = date(year, month, day)
    except ValueError as error:
        raise ValueError(f"{text!r} is no time span ({error}): {_HOW}") from None
    if len(parts) == 1:
        end = date(year + 1, 1, 1)
    elif len(parts) == 2:
        end = date(year + month // 12, month % 12 + 1, 1)
    else:
        end = start + timedelta(days=1)
    return start.isoformat(), end.isoformat()
