"""The connection to a broker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote

from . import addresses, areas, sessions, signin
from .areas import Area
from .catalogue import Service, Services
from .errors import NotFound, SignInRequired
from .job import Job, Jobs
from .runs import Run, query_of
from .task import Task, Tasks
from .tiles import Tiles
from .transport import TokenSource, Transport

R = TypeVar("R", bound=Run)


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    offline: bool = False,
    interactive: bool | None = None,
    insecure: bool = False,
) -> Connection:
    """Connect to a broker, and sign in by a page in your browser unless you are signed in already.

    The sign-in is kept in a file that only you can read, is renewed when it is used, and is that of the command line
    `eodispatch login`, too. Programs that act for themselves need none: give a token, or EODISPATCH_TOKEN.

    url : address of the broker, or a name that `eodispatch login --name` gave it; by default EODISPATCH_BROKER,
        or that of your last sign-in
    token : access token; by default EODISPATCH_TOKEN
    offline : stay signed in when your session at the identity provider ends
    interactive : whether a page to sign in can be shown; by default in a notebook and on a terminal
    insecure : permit http to other machines, where everybody on the way can read the token
    """
    environment = os.environ
    url = url or environment.get("EODISPATCH_BROKER") or sessions.current()
    if not url:
        raise SignInRequired("no broker is known: give its address, or set EODISPATCH_BROKER")
    named = sessions.named(url)
    address = addresses.parse(named.url if named else url)
    addresses.require_secure(address, insecure)
    given = token or environment.get("EODISPATCH_TOKEN")
    if given:
        return Connection(address, lambda _: given)
    session = sessions.find(address)
    if session:
        connection = Connection(address, signin.Renewer(session, insecure))
        try:
            connection.user()
            return connection
        except SignInRequired:
            connection.close()
    if not (signin.may_ask() if interactive is None else interactive):
        raise SignInRequired(
            f"you are not signed in to {address}: set EODISPATCH_TOKEN, or sign in once by "
            f"eodispatch.connect({address!r}) in a terminal or notebook"
        )
    session = signin.sign_in(address, offline=offline, insecure=insecure)
    return Connection(address, signin.Renewer(session, insecure))


class Connection:
    """A broker, as one user sees it."""

    def __init__(self, address: str, token: TokenSource) -> None:
        self.url = address
        """The address of the broker."""
        self.transport = Transport(address, token)

    def close(self) -> None:
        """Close the connections to the broker."""
        self.transport.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def user(self) -> str:
        """The name of who is signed in."""
        user = self.transport.get("/session").get("user") or {}
        return str(user.get("name") or user.get("email") or user.get("id") or "")

    def sign_out(self) -> None:
        """End the sign-in that is kept on this machine, for the command line, too. Jobs run on."""
        session = sessions.find(self.url)
        if session:
            signin.sign_out(session)

    def services(self, text: str = "") -> Services:
        """The services of the catalogue that match a text, shown as a table."""
        found, query = [], {"limit": 100, **({"q": text} if text else {})}
        while True:
            page = self.transport.get("/services", query)
            found += page["services"]
            if not page.get("next"):
                return Services(Service(self, raw, {"id": raw["id"]}) for raw in found)
            query["cursor"] = page["next"]

    def service(self, name: str) -> Service:
        """A service of the catalogue by its id."""
        try:
            raw = self.transport.get("/services/" + quote(name, safe=""))
        except NotFound as error:
            if error.code == "SERVICE_NOT_FOUND":
                error.text = f"the catalogue has no service {name!r}; services() lists them"
            raise
        return Service(self, raw, {"id": raw["id"]})

    def process(self, application: str, platform: str, namespace: str | None = None) -> Service:
        """A process that the catalogue does not list, as a service.

        application : URL of an openEO process, or id of a process that the platform stores
        platform : name of the platform; `platforms` lists them
        """
        known = {str(one["name"]): one for one in self.platforms()}
        if platform not in known:
            raise NotFound(f"there is no platform {platform!r}; there are: {', '.join(known)}")
        reference = {"endpoint": known[platform]["endpoint"], "application": application, "namespace": namespace}
        label = known[platform]["label"]
        described = self.transport.post("/params", {"label": label, "service": reference})
        name = application.rstrip("/").rpartition("/")[2].removesuffix(".json")
        raw = {"id": name, "platform": platform, "label": label, "parameters": described}
        return Service(self, raw, reference)

    def platforms(self) -> list[dict[str, Any]]:
        """The platforms: their state, and your jobs and limits there."""
        found: list[dict[str, Any]] = self.transport.get("/platforms")["platforms"]
        return found

    def grids(self) -> list[dict[str, Any]]:
        """The grids that areas can be split by."""
        found: list[dict[str, Any]] = self.transport.get("/grids")
        return found

    def tiles(
        self,
        area: Area,
        grid: str | None = None,
        *,
        cells: Any = None,
        min_area: float | None = None,
        merge: bool | None = None,
        buffer: float | None = None,
        order: str | None = None,
        clip: bool | None = None,
    ) -> Tiles:
        """Split an area into tiles.

        grid : name of a grid
        cells : in place of a grid, cells of your own: a FeatureCollection or a GeoDataFrame whose features have names
        min_area : leave out tiles with a smaller piece of the area, in square metres
        merge : make those a part of a neighbour
        buffer : let cells reach so many metres beyond their borders
        order : row, or centre: the middle of the area comes first
        clip : False: whole cells in place of their pieces of the area
        """
        body: dict[str, Any] = {"aoi": areas.to_geojson(area)}
        if cells is not None:
            geometries, names = areas.to_geometries(cells)
            features = [
                {"type": "Feature", "id": name or str(number), "properties": {}, "geometry": geometry}
                for number, (name, geometry) in enumerate(zip(names or [""] * len(geometries), geometries), 1)
            ]
            body["cells"] = {"type": "FeatureCollection", "features": features}
        settings = {"grid": grid, "min_area": min_area, "merge": merge, "buffer": buffer, "order": order, "clip": clip}
        body.update({name: value for name, value in settings.items() if value is not None})
        return Tiles(self.transport.post("/tiles", body))

    def jobs(self, limit: int = 100, **filters: Any) -> Jobs:
        """Your newest jobs that belong to no task.

        filters : status, platform, labels ("key=value" or {"key": "value"}), title, service, created_after,
            created_before
        """
        found = self._listed("processing", "processing_jobs", limit, filters)
        return Jobs(Job(self, raw) for raw in found)

    def tasks(self, limit: int = 100, **filters: Any) -> Tasks:
        """Your newest tasks, by the same filters as `jobs`."""
        found = self._listed("upscaling", "upscaling_tasks", limit, filters)
        return Tasks(Task(self, raw) for raw in found)

    def job(self, number: int | str) -> Job:
        """A job by its number, or "@latest"."""
        if number == "@latest":
            return self._newest(self.jobs(limit=1)).refresh()
        return Job(self, {"id": _number(number, "job")}).refresh()

    def task(self, number: int | str) -> Task:
        """A task by its number, or "@latest"."""
        if number == "@latest":
            return self._newest(self.tasks(limit=1)).refresh()
        return Task(self, {"id": _number(number, "task")}).refresh()

    def _listed(self, kind: str, member: str, limit: int, filters: Mapping[str, Any]) -> Iterator[Any]:
        query = {"filter": kind, "parameters": "false", "limit": min(limit, 200), **query_of(filters)}
        return islice(self.transport.pages("/jobs_status", member, query), limit)

    def _newest(self, runs: Iterable[R]) -> R:
        for run in runs:
            return run
        raise NotFound("you have none")

    def __repr__(self) -> str:
        return f"<Connection {self.url}>"


def _number(text: int | str, kind: str) -> int:
    number = str(text).removeprefix(kind + "-")
    if not number.isdigit():
        raise ValueError(f"{text!r} is no {kind}: give its number, or '@latest'")
    return int(number)
