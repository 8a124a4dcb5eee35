"""Addresses to which a token may be sent."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit, urlunsplit


def parse(address: str) -> str:
    """The one spelling of a broker's address: with a scheme, in lower case, without a slash at the end.

    An address without a scheme is taken as https, or as http on this machine.
    """
    if "://" not in address:
        host = urlsplit("//" + address).hostname or ""
        address = ("http://" if _is_this_machine(host) else "https://") + address
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.username or parts.query or parts.fragment:
        raise ValueError(f"{address!r} is not the address of a broker, such as https://broker.example.org")
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"), "", ""))


def is_secure(address: str) -> bool:
    """Whether nobody on the way can read a token that is sent there: https, or this machine."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(parts.hostname or ""))


def require_secure(address: str, insecure: bool) -> None:
    """Refuse an address with plain http to another machine, unless the user permits it."""
    if not insecure and not is_secure(address):
        raise ValueError(
            f"{address} is not https, so everybody on the way could read the token. Permit it with insecure=True"
        )


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
