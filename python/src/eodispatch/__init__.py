"""Run Earth-observation services over areas and times, through an eodispatch broker.

    import eodispatch

    c = eodispatch.connect("https://dispatch.example.org")
    task = c.service("ndvi_composite").run((5.05, 51.05, 5.75, 51.45), "2024-06", grid="20x20km")
    task.wait().download("ndvi")
"""

from importlib.metadata import version

from .catalogue import Call, Estimate, Range, Service, Services
from .connection import Connection, connect
from .errors import (
    BrokerError,
    Conflict,
    DownloadFailed,
    EodispatchError,
    InvalidRequest,
    JobFailed,
    LimitReached,
    NotFound,
    ResultsMissing,
    SignInRequired,
    Unreachable,
)
from .events import Event
from .job import Job, Jobs
from .parameters import Parameter
from .task import Task, Tasks
from .tiles import Tiles

__version__ = version("eodispatch")

__all__ = [
    "BrokerError",
    "Call",
    "Conflict",
    "Connection",
    "DownloadFailed",
    "EodispatchError",
    "Estimate",
    "Event",
    "InvalidRequest",
    "Job",
    "JobFailed",
    "Jobs",
    "LimitReached",
    "NotFound",
    "Parameter",
    "Range",
    "ResultsMissing",
    "Service",
    "Services",
    "SignInRequired",
    "Task",
    "Tasks",
    "Tiles",
    "Unreachable",
    "connect",
]
