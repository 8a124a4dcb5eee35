"""Signing in by a page in a browser on any machine (RFC 8628), and renewing the token."""

from __future__ import annotations

import base64
import hashlib
import secrets
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx

from . import sessions
from .addresses import parse, require_secure
from .display import in_notebook, show_link
from .errors import BrokerError, SignInRequired, Unreachable
from .sessions import Session
from .transport import error_of, not_a_broker, user_agent

_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_RENEW_BEFORE = timedelta(seconds=30)


class Renewer:
    """The token of a stored sign-in. Of several processes one renews it, and the others read the result."""

    def __init__(self, session: Session, insecure: bool) -> None:
        self._session = session
        self._insecure = insecure
        self._lock = threading.Lock()

    def __call__(self, refused: bool) -> str:
        """The access token; if the last one was refused, another."""
        with self._lock:
            if refused or not _is_usable(self._session):
                self._renew(self._session.grant.get("access_token", "") if refused else None)
            return str(self._session.grant["access_token"])

    def _renew(self, refused: str | None) -> None:
        with sessions.locked(self._session.name):
            stored = sessions.read(self._session.name)
            if stored is None:
                raise _signed_out(self._session)
            self._session = stored
            if _is_usable(stored) and stored.grant["access_token"] != refused:
                return  # another process has renewed it
            if not stored.grant.get("refresh_token"):
                raise _signed_out(stored)
            require_secure(stored.token_endpoint, self._insecure)
            answer = _post(
                stored.token_endpoint,
                {
                    "grant_type": "refresh_token",
                    "refresh_token": stored.grant["refresh_token"],
                    "client_id": stored.client_id,
                },
            )
            if answer.get("error") == "invalid_grant":
                raise _signed_out(stored)
            stored.grant = {**stored.grant, **_grant_of(answer)}
            sessions.write(stored)


def sign_in(address: str, *, offline: bool, insecure: bool) -> Session:
    """Let the user sign in at a broker, and store the sign-in."""
    issuer, client = _who_signs_in(address)
    for other in sessions.every():
        # A broker could name the provider and client of another one, and use the token there.
        if other.url != address and other.client_id == client and other.issuer.rstrip("/") == issuer.rstrip("/"):
            raise SignInRequired(
                f"{address} has the identity provider and the client of {other.url}, where you are signed in, so each "
                f"could act for you at the other. If you trust both, run: eodispatch login {address} --issuer {issuer}"
            )
    provider = _discover(issuer, insecure)
    grant = _by_device(provider, client, "openid offline_access" if offline else "openid")
    session = Session(
        sessions.name_of(address),
        address,
        issuer,
        client,
        provider["token_endpoint"],
        provider.get("revocation_endpoint", ""),
        grant,
    )
    with sessions.locked(session.name):
        sessions.write(session)
        sessions.choose(session)
    return session


def sign_out(session: Session) -> None:
    """Revoke a sign-in at the identity provider, and delete it here."""
    with sessions.locked(session.name):
        session = sessions.read(session.name) or session
        sessions.forget(session)
    if session.revocation_endpoint and session.grant.get("refresh_token"):
        form = {"token": session.grant["refresh_token"], "token_type_hint": "refresh_token"}
        _post(session.revocation_endpoint, {**form, "client_id": session.client_id})


def may_ask() -> bool:
    """Whether there is somebody to whom a page can be shown."""
    return in_notebook() or (sys.stdin is not None and sys.stdin.isatty())


def _who_signs_in(address: str) -> tuple[str, str]:
    """The identity provider of a broker, and its client for programs like this one (RFC 9728)."""
    try:
        response = httpx.get(address + "/.well-known/oauth-protected-resource", timeout=30)
    except httpx.TransportError as error:
        raise Unreachable(f"{address} does not respond: {error}") from error
    if not response.is_success:
        raise error_of(address, response)
    try:
        document = response.json()
        own, issuer = parse(document["resource"]), str(document["authorization_servers"][0])
    except (ValueError, LookupError, TypeError):
        raise not_a_broker(address, response) from None
    # A broker behind a proxy that ends TLS may know its address only with http.
    if own != address and "https" + own.removeprefix("http") != address:
        raise BrokerError(f"the broker at {address} says that its address is {own}. Use that one if it is right")
    client = document.get("eodispatch_client_id")
    if not client:
        raise SignInRequired(
            f"{address} names no client for programs. Ask its operator for one (identity.command_line_client), "
            "or give a token"
        )
    return issuer, client


def _discover(issuer: str, insecure: bool) -> dict[str, Any]:
    require_secure(issuer, insecure)
    try:
        response = httpx.get(issuer.rstrip("/") + "/.well-known/openid-configuration", timeout=30)
        response.raise_for_status()
        found: dict[str, Any] = response.json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unreachable(f"the identity provider {issuer} does not answer as one does: {error}") from error
    if found.get("issuer") != issuer:
        raise SignInRequired(f"the identity provider {issuer} names itself {found.get('issuer')}")
    for name in ("token_endpoint", "device_authorization_endpoint", "revocation_endpoint"):
        if name in found:
            require_secure(found[name], insecure)
    return found


def _by_device(provider: dict[str, Any], client: str, scope: str) -> dict[str, Any]:
    if "device_authorization_endpoint" not in provider:
        raise SignInRequired("the identity provider offers no sign-in by a page. Sign in with: eodispatch login")
    verifier = secrets.token_urlsafe(48)
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    challenge = {"code_challenge": digest, "code_challenge_method": "S256"}
    page = _post(provider["device_authorization_endpoint"], {"client_id": client, "scope": scope, **challenge})
    if "device_code" not in page:
        raise _refused(page)
    address = page.get("verification_uri_complete") or page["verification_uri"]
    if not address.startswith(("https://", "http://")):  # another scheme could start any program
        raise SignInRequired(f"the identity provider names a page that is none: {address!r}")
    show_link(address, page["user_code"])
    form = {"grant_type": _DEVICE_GRANT, "device_code": page["device_code"], "client_id": client}
    pause, end = float(page.get("interval", 5)), time.monotonic() + float(page.get("expires_in", 600))
    while time.monotonic() < end:
        time.sleep(pause)
        answer = _post(provider["token_endpoint"], {**form, "code_verifier": verifier})
        if "access_token" in answer:
            return _grant_of(answer)
        if answer.get("error") == "slow_down":
            pause += 5
        elif answer.get("error") != "authorization_pending":
            raise _refused(answer)
    raise SignInRequired("nobody signed in on the page in time")


def _post(address: str, form: dict[str, str]) -> dict[str, Any]:
    """Send a form to the identity provider. No redirect is followed, which would take a secret elsewhere."""
    try:
        response = httpx.post(address, data=form, timeout=30, headers={"User-Agent": user_agent()})
        answer = response.json() if response.content else {}
    except (httpx.TransportError, ValueError) as error:
        raise Unreachable(f"the identity provider does not respond: {error}") from error
    if response.status_code >= 500:
        raise Unreachable(f"the identity provider answers with {response.status_code}")
    return answer if isinstance(answer, dict) else {}


def _grant_of(answer: dict[str, Any]) -> dict[str, Any]:
    if "access_token" not in answer:
        raise _refused(answer)
    kept = ("access_token", "token_type", "refresh_token")
    grant: dict[str, Any] = {key: answer[key] for key in kept if key in answer}
    if "expires_in" in answer:
        expiry = datetime.now(timezone.utc) + timedelta(seconds=float(answer["expires_in"]))
        grant["expiry"] = expiry.isoformat().replace("+00:00", "Z")
    return grant


def _is_usable(session: Session) -> bool:
    expiry = session.grant.get("expiry")
    if not session.grant.get("access_token") or not expiry or expiry.startswith("0001-"):  # Go's zero time
        return bool(session.grant.get("access_token"))
    # Python 3.10 reads neither Z nor the nanoseconds that the command line writes: seconds are enough.
    ends = datetime.fromisoformat(expiry[:19])
    offset = expiry[19:].lstrip(".0123456789")
    if offset not in ("", "Z"):
        ends -= _offset(offset)
    return ends.replace(tzinfo=timezone.utc) - datetime.now(timezone.utc) > _RENEW_BEFORE


def _offset(text: str) -> timedelta:
    hours, minutes = int(text[1:3]), int(text[4:6])
    return (-1 if text[0] == "-" else 1) * timedelta(hours=hours, minutes=minutes)


def _refused(answer: dict[str, Any]) -> SignInRequired:
    reason = f"{answer.get('error', '')} {answer.get('error_description', '')}".strip()
    return SignInRequired(f"the identity provider refuses the sign-in: {reason}")


def _signed_out(session: Session) -> SignInRequired:
    again = f"eodispatch.connect({session.url!r})"
    return SignInRequired(f"your sign-in at {session.url} has ended. Sign in again: {again}")
