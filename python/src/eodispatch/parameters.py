"""The parameters of a service as a Python signature, and their values as the broker takes them."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from . import areas, times

AREA_TYPES = ("bounding-box", "polygon")
TIME_TYPES = ("date-interval", "datetime")

_ANNOTATIONS: dict[str, Any] = {
    "bounding-box": "Area",
    "polygon": "Area",
    "date-interval": "Time",
    "datetime": "Time",
    "boolean": bool,
    "integer": int,
    "double": float,
    "string": str,
}


class Filled:
    """Stands in a signature for the value that another argument gives."""

    def __init__(self, argument: str) -> None:
        self.argument = argument

    def __repr__(self) -> str:
        return f"<{self.argument}>"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a service."""

    name: str
    type: str
    optional: bool = False
    description: str = ""
    default: Any = None
    options: Sequence[Any] = ()
    minimum: float | None = None
    maximum: float | None = None
    warning: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Parameter:
        """The parameter that the broker describes."""
        known = {name: document[name] for name in cls.__dataclass_fields__ if document.get(name) is not None}
        return cls(**known)

    @property
    def takes_area(self) -> bool:
        """Whether the argument area fills it."""
        return self.type in AREA_TYPES

    @property
    def takes_time(self) -> bool:
        """Whether the argument time fills it."""
        return self.type in TIME_TYPES

    def encode(self, value: Any) -> Any:
        """A value as the broker takes it."""
        if value is None:
            return None
        if self.takes_area:
            return self._encode_area(value)
        if self.type == "date-interval":
            return times.to_interval(value)
        if isinstance(value, date):
            return times.to_text(value)
        if hasattr(value, "item") and hasattr(value, "dtype"):  # a number of NumPy
            return value.item() if getattr(value, "ndim", 0) == 0 else value.tolist()
        return value

    def _encode_area(self, value: Any) -> Any:
        area = areas.to_geojson(value)
        box = areas.box_around(area) if self.type == "bounding-box" else None
        if box is None:
            return area  # the broker says whether the service can take one across the antimeridian
        excess = areas.excess_of_box(area)
        if excess > 0.01:
            warn(f"{self.name} takes a box: the one around the area is sent, which is {excess:.0%} larger")
        return box

    def summary(self) -> str:
        """One line for a docstring."""
        facts = [self.type]
        if self.options:
            facts.append("one of " + ", ".join(map(repr, self.options)))
        if self.minimum is not None or self.maximum is not None:
            low = "" if self.minimum is None else f"{self.minimum} "
            high = "" if self.maximum is None else f" {self.maximum}"
            facts.append(f"{low}to{high}")
        if self.optional:
            facts.append("optional")
        return f"{self.name} : {', '.join(facts)}\n    {self.description or self.warning}".rstrip()


def warn(text: str) -> None:
    """Warn at the line of the user's that called this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__", "")).startswith("eodispatch."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def signature_of(parameters: Sequence[Parameter], own: inspect.Signature) -> inspect.Signature:
    """A signature that has the parameters of a service, and then those of the method that takes them.

    A parameter that is no Python name, or has the name of an argument of the method, is not in it; the argument
    `parameters` takes those.
    """
    arguments = list(own.parameters.values())
    positional = [
        a
        for a in arguments
        if (a.name == "area" and any(p.takes_area for p in parameters))
        or (a.name == "time" and any(p.takes_time for p in parameters))
    ]
    options = [a for a in arguments if a.kind is inspect.Parameter.KEYWORD_ONLY]
    names = {a.name for a in arguments}
    values = [_argument(p) for p in parameters if p.name.isidentifier() and p.name not in names]
    return own.replace(parameters=[*positional, *values, *options])


def _argument(parameter: Parameter) -> inspect.Parameter:
    default = parameter.default
    if parameter.takes_area:
        default = Filled("area")
    elif parameter.takes_time and not parameter.optional:
        default = Filled("time")
    elif default is None and not parameter.optional:
        default = inspect.Parameter.empty
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=_ANNOTATIONS.get(parameter.type, inspect.Parameter.empty),
    )
