"""The request that the arguments of a call stand for: one job, or a task with a job for each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import areas, times
from .areas import Area
from .parameters import Parameter, warn
from .times import Time

if TYPE_CHECKING:
    from .catalogue import Service
    from .tiles import Tiles


@dataclass(frozen=True)
class Arguments:
    """The arguments of Service.run and Service.estimate."""

    area: Area | None
    time: Time | None
    values: Mapping[str, Any]
    """Values of parameters by name."""
    grid: str | None
    split: str | None
    each: Mapping[str, Any]
    zip: bool
    title: str | None
    format: str | None
    options: Mapping[str, Any]
    platform: str | None
    also: Sequence[str]
    labels: Mapping[str, str]
    note: str | None


def build(service: Service, given: Arguments) -> dict[str, Any]:
    """The body of the request. It has a dimension, or several, if it is that of a task."""
    parameters = {p.name: p for p in service.parameters}
    unknown = [name for name in (*given.values, *given.each) if parameters and name not in parameters]
    if unknown:
        raise TypeError(
            f"{service.id} has no parameter {', '.join(map(repr, unknown))}; it has: {', '.join(parameters) or 'none'}"
        )
    open_names = [name for name in parameters if name not in given.values and name not in given.each]
    values = {name: _encode(parameters.get(name), value) for name, value in given.values.items()}
    dimensions = [
        *_area_dimension(service, given, [parameters[n] for n in open_names if parameters[n].takes_area], values),
        *_time_dimension(given, [parameters[n] for n in open_names if parameters[n].takes_time], values),
        *(_dimension(parameters.get(name) or Parameter(name, ""), list_) for name, list_ in given.each.items()),
    ]
    return _body(service, given, values, dimensions)


def is_task(body: Mapping[str, Any]) -> bool:
    """Whether a body is that of a task."""
    return "dimension" in body or "dimensions" in body


def _encode(parameter: Parameter | None, value: Any) -> Any:
    return parameter.encode(value) if parameter else value


def _body(
    service: Service, given: Arguments, values: Mapping[str, Any], dimensions: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    reference = dict(service.reference)
    if given.platform:
        reference["platform"] = given.platform
    body: dict[str, Any] = {"title": given.title or service.title, "parameters": values}
    if service.label and "id" not in reference:
        body["label"] = service.label
    if given.also:
        body["services"] = [reference, *({"id": name} for name in given.also)]
    else:
        body["service"] = reference
    if len(dimensions) == 1:
        body["dimension"] = dimensions[0]
    elif dimensions:
        body["dimensions"] = list(dimensions)
        body["combine"] = "zip" if given.zip else "product"
    for name, value in (("format", given.format), ("labels", dict(given.labels)), ("note", given.note)):
        if value:
            body[name] = value
    options = {name: value for name, value in given.options.items() if value is not None}
    if options:
        body["options"] = options
    return body


def _area_dimension(
    service: Service, given: Arguments, open_parameters: Sequence[Parameter], values: dict[str, Any]
) -> list[dict[str, Any]]:
    """Fill in the area, or split it into the values of a dimension."""
    if given.area is None:
        if given.grid:
            raise TypeError("grid splits an area: give the area, too")
        return []
    if not open_parameters:
        raise TypeError(f"{service.id} has no parameter that takes an area, or all of them are given")
    if not given.grid:
        values.update((parameter.name, parameter.encode(given.area)) for parameter in open_parameters)
        return []
    if len(open_parameters) > 1:
        raise TypeError(f"{service.id} has several parameters that take an area: give all but one by their names")
    return [_dimension(open_parameters[0], service.connection.tiles(given.area, given.grid))]


def _time_dimension(
    given: Arguments, open_parameters: Sequence[Parameter], values: dict[str, Any]
) -> list[dict[str, Any]]:
    """Fill in the time, or split it into the values of a dimension."""
    spans = [p for p in open_parameters if p.type == "date-interval"]
    if given.split:
        if given.time is None or len(spans) != 1:
            raise TypeError("split needs a time, and a service with one open parameter that takes a time span")
        return [{"name": spans[0].name, "interval": times.to_interval(given.time), "split": given.split}]
    if given.time is None:
        return []
    if not open_parameters:
        raise TypeError("the service has no parameter that takes a time, or all of them are given")
    values.update((parameter.name, parameter.encode(given.time)) for parameter in spans or open_parameters)
    return []


def _dimension(parameter: Parameter, given: Any) -> dict[str, Any]:
    """The dimension of the values that a parameter is given."""
    names: list[str] = []
    if parameter.takes_area:
        values, names = _geometries(parameter, given)
    elif isinstance(given, Mapping):
        names, values = [str(name) for name in given], [parameter.encode(value) for value in given.values()]
    elif isinstance(given, (str, bytes)):
        raise TypeError(f"each: give {parameter.name} several values, as a list")
    else:
        values = [parameter.encode(value) for value in given]
    if not values:
        raise ValueError(f"each: {parameter.name} is given no values")
    return {"name": parameter.name, "values": values, **({"names": names} if names else {})}


def _geometries(parameter: Parameter, given: Area | Tiles) -> tuple[list[Any], list[str]]:
    geometries, names = areas.to_geometries(given)
    if parameter.type == "bounding-box":
        excesses = [areas.excess_of_box(geometry) for geometry in geometries]
        boxes = sum(excess > 0.01 for excess in excesses)
        if boxes:
            warn(
                f"{parameter.name} takes boxes: in place of {boxes} of {len(geometries)} areas the boxes around them "
                f"are sent, up to {max(excesses):.0%} larger, so that neighbours may overlap"
            )
    return geometries, names
