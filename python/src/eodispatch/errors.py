"""What can go wrong, as exceptions. All of them are an EodispatchError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .display import printable

if TYPE_CHECKING:
    from .runs import Run


class EodispatchError(Exception):
    """The base of all exceptions of this package."""

    def __str__(self) -> str:
        return printable(super().__str__())


class Unreachable(EodispatchError):
    """The broker, or the identity provider, does not respond."""


class BrokerError(EodispatchError):
    """The broker refuses a request."""

    def __init__(
        self,
        text: str,
        *,
        status: int = 0,
        code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        faults: Sequence[Mapping[str, Any]] = (),
        link: str = "",
    ) -> None:
        super().__init__(text)
        self.status = status
        """The HTTP status; 0 if no request was sent."""
        self.code = code
        """A stable name of the error for programs, such as JOB_NOT_FOUND."""
        self.text = text
        """The explanation for people."""
        self.request_id = request_id
        """What to quote when you report a problem."""
        self.retry_after = retry_after
        """The seconds after which the request can be repeated; None if the broker did not say."""
        self.faults = tuple(faults)
        """Each fault of the request: "loc" is its place, "msg" what is wrong there."""
        self.link = link
        """A page where you can resolve it; empty if there is none."""

    def __str__(self) -> str:
        lines = [self.text]
        for fault in self.faults:
            message = str(fault.get("msg", ""))
            if message and message not in self.text:
                place = ".".join(str(part) for part in fault.get("loc", ()) if part != "body")
                lines.append(f"  {place}: {message}" if place else f"  {message}")
        if self.link and self.link not in self.text:
            lines.append(f"Open this page: {self.link}")
        if self.request_id:
            lines[-1] += f" (request {self.request_id})"
        return printable("\n".join(lines))


class SignInRequired(BrokerError):
    """You are not signed in, your sign-in has ended, or a platform needs one."""


class InvalidRequest(BrokerError):
    """The request is wrong: `faults` lists everything at once."""


class NotFound(BrokerError):
    """There is no such job, task, service or result."""


class Conflict(BrokerError):
    """The request does not fit what there is, such as a pause of a task that has ended."""


class LimitReached(BrokerError):
    """A limit is reached: `retry_after` says when to try again."""


class JobFailed(EodispatchError):
    """A job that was waited for did not finish: `run` is the job, and the text its reason."""

    def __init__(self, run: Run, text: str) -> None:
        super().__init__(text)
        self.run = run


class ResultsMissing(EodispatchError):
    """The results of finished jobs cannot be read: `jobs` maps their numbers to the reasons."""

    def __init__(self, jobs: Mapping[int, str]) -> None:
        shown = "\n".join(f"  job {number}: {reason}" for number, reason in list(jobs.items())[:20])
        more = f"\n  and {len(jobs) - 20} more" if len(jobs) > 20 else ""
        super().__init__(f"results are missing for {len(jobs)} of the finished jobs:\n{shown}{more}")
        self.jobs = dict(jobs)


class DownloadFailed(EodispatchError):
    """A file could not be downloaded. What has arrived is kept, and the next download goes on there."""


_BY_STATUS: dict[int, type[BrokerError]] = {
    400: InvalidRequest,
    401: SignInRequired,
    404: NotFound,
    409: Conflict,
    422: InvalidRequest,
    429: LimitReached,
}


def refusal(status: int, body: Any, retry_after: str | None) -> BrokerError | None:
    """The error that a response of the broker stands for; None if the body is not that of a broker."""
    if not isinstance(body, dict) or not body.get("error_code"):
        return None
    details = body.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_STATUS.get(status, BrokerError)
    if body["error_code"] == "SIGN_IN_REQUIRED":
        kind = SignInRequired
    return kind(
        str(body.get("message", "")),
        status=status,
        code=str(body["error_code"]),
        request_id=str(body.get("request_id") or ""),
        retry_after=float(retry_after) if retry_after and retry_after.isdigit() else None,
        faults=details.get("errors") or (),
        link=str(details.get("link") or ""),
    )
