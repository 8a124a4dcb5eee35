"""Requests to the broker: the token, repeated attempts, pages, and errors."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from .errors import BrokerError, NotFound, Unreachable, refusal

ANSWER_WITHIN = 120.0
"""Seconds within which a broker answers, with the time for which it waits for a change."""

_ATTEMPTS = 4
_LONGEST_PAUSE = 15.0
_PAGE = 200
_NOT_A_BROKER = "NOT_A_BROKER"

Params = Mapping[str, Any]
TokenSource = Callable[[bool], str]
"""Returns the access token; with True, if it can, another one than the last, which was refused."""


class Transport:
    """Sends requests to one broker. It can be used by several threads at once."""

    def __init__(self, address: str, token: TokenSource) -> None:
        self.address = address
        self._token = token
        # A redirect would take the token to another address, so none is followed.
        self._http = httpx.Client(
            base_url=address,
            timeout=httpx.Timeout(ANSWER_WITHIN, connect=30),
            headers={"User-Agent": user_agent(), "Accept": "application/json, application/geo+json"},
            follow_redirects=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def authorization(self) -> dict[str, str]:
        """The header with the token."""
        return _authorization(self._token(False))

    def get(self, path: str, params: Params | None = None) -> Any:
        """Read a document."""
        return self._send("GET", path, params=params).json()

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """Send a document, by a request that must not be repeated unless it has a key."""
        if not key:
            return self._send("POST", path, body=body, repeatable=False).json()
        again = f"It may have been submitted. Repeat it with key={key!r}, so that nothing is submitted twice."
        try:
            return self._send("POST", path, body=body, headers={"Idempotency-Key": key}).json()
        except Unreachable as error:
            raise Unreachable(f"{error}\n{again}") from error
        except BrokerError as error:
            if error.code == _NOT_A_BROKER and error.status >= httpx.codes.INTERNAL_SERVER_ERROR:  # before the broker
                error.text += "\n" + again
            raise

    def delete(self, path: str) -> None:
        """Delete something. It is no error if an earlier attempt has deleted it."""
        self._send("DELETE", path)

    def poll(self, path: str, params: Params, etag: str, seconds: float) -> tuple[Any, str]:
        """Read a document when it differs from that of the ETag, or after some seconds; None if it does not differ."""
        headers = {}
        if etag:
            params, headers = {**params, "wait": max(1, int(seconds))}, {"If-None-Match": etag}
        response = self._send("GET", path, params=params, headers=headers)
        document = None if response.status_code == httpx.codes.NOT_MODIFIED else response.json()
        return document, response.headers.get("ETag", etag)

    def pages(self, path: str, member: str, params: Params | None = None) -> Iterator[Any]:
        """The elements of a list that names its next page in the header Link."""
        first = {"limit": _PAGE, **(params or {})}
        query: dict[str, Any] | None = first
        while query is not None:
            response = self._send("GET", path, params=query)
            yield from response.json().get(member) or ()
            # Only the query is used, so that no page is requested from another place.
            link = response.links.get("next", {}).get("url")
            query = None if link is None else {**first, **parse_qs(urlsplit(link).query)}

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> httpx.Response:
        token, renewed, lost = self._token(False), False, False
        for attempt in range(1, _ATTEMPTS + 1):
            pause: float | None
            try:
                return self._send_once(method, path, params, body, {**(headers or {}), **_authorization(token)})
            except httpx.TransportError as error:
                pause = 2.0 ** (attempt - 1) if repeatable and attempt < 3 else None
                failure: Exception = Unreachable(f"{self.address} does not respond: {error or type(error).__name__}")
                lost = True
            except BrokerError as error:
                if lost and method == "DELETE" and isinstance(error, NotFound):
                    return httpx.Response(httpx.codes.NO_CONTENT)  # the attempt whose response was lost has deleted it
                failure, pause = error, _pause(error, repeatable)
                if error.status == httpx.codes.UNAUTHORIZED and not renewed:
                    refused, token, renewed = token, self._token(True), True
                    pause = None if token == refused else 0
            if pause is None or attempt == _ATTEMPTS:
                raise failure
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _send_once(
        self, method: str, path: str, params: Params | None, body: Any, headers: Mapping[str, str]
    ) -> httpx.Response:
        response = self._http.request(method, path, params=params, json=body, headers=dict(headers))
        if response.status_code == httpx.codes.NOT_MODIFIED or response.is_success:
            if response.content and "json" not in response.headers.get("Content-Type", ""):
                raise not_a_broker(self.address, response)
            return response
        raise error_of(self.address, response)


def _authorization(token: str) -> dict[str, str]:
    return {"Authorization": "Bearer " + token}


def error_of(address: str, response: httpx.Response) -> BrokerError:
    """The error that a response stands for."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return refusal(response.status_code, body, response.headers.get("Retry-After")) or not_a_broker(address, response)


def not_a_broker(address: str, response: httpx.Response) -> BrokerError:
    """The error for a response that no broker sends."""
    media = response.headers.get("Content-Type") or "a body without a type"
    return BrokerError(
        f"{address} does not answer as a broker does: {response.status_code}, {media}. Check the address.",
        status=response.status_code,
        code=_NOT_A_BROKER,
    )


def _pause(error: BrokerError, repeatable: bool) -> float | None:
    """How long to wait before a refused request is repeated; None: it is not."""
    refused = error.status == httpx.codes.TOO_MANY_REQUESTS or (
        error.status == httpx.codes.SERVICE_UNAVAILABLE and repeatable
    )
    if not refused or error.retry_after is None or error.retry_after > _LONGEST_PAUSE:
        return None
    return max(1.0, error.retry_after)


def new_key() -> str:
    """A random Idempotency-Key."""
    return secrets.token_urlsafe(16)


def user_agent() -> str:
    """How this package names itself."""
    return "eodispatch-python/" + version("eodispatch")
