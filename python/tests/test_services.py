"""The catalogue, and the parameters of services as Python signatures."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import eodispatch
from eodispatch.catalogue import Estimate
from eodispatch.parameters import Parameter, signature_of

from .conftest import BOX, REGION


def test_services_are_a_table(c: eodispatch.Connection) -> None:
    services = c.services("composite")
    assert [service.id for service in services] == ["ndvi_composite"]
    assert "Greenest NDVI of a season" in repr(services)
    assert "<td>Greenest NDVI of a season</td>" in services._repr_html_()
    assert len(c.services()) == 5


def test_texts_of_others_are_escaped_in_tables(c: eodispatch.Connection) -> None:
    raw = {"id": "a", "title": "<script>alert(1)</script>\x1b[2J", "parameters": []}
    service = eodispatch.Service(c, raw, {})
    table = eodispatch.Services([service])
    for shown in (table._repr_html_(), service._repr_html_()):
        assert "<script>" not in shown and "&lt;script&gt;" in shown
    assert "\x1b" not in repr(table)


def test_parameters_are_a_signature(c: eodispatch.Connection) -> None:
    service = c.service("ndvi_composite")
    for call in (service.run, service.estimate):
        arguments = inspect.signature(call).parameters
        assert list(arguments)[:5] == ["area", "time", "spatial_extent", "temporal_extent", "max_cloud_cover"]
        assert arguments["max_cloud_cover"].default == 75 and arguments["max_cloud_cover"].annotation is float
        assert repr(arguments["spatial_extent"].default) == "<area>"
        assert "max_cloud_cover : double, 0 to 100, optional" in (inspect.getdoc(call) or "")
    assert "key" in inspect.signature(service.run).parameters
    assert "observation" in (inspect.getdoc(service) or "") and "max_cloud_cover" in service._repr_html_()
    assert "time" in inspect.signature(c.service("ndvi_scene").run).parameters


def test_a_signature_without_areas_and_with_names_that_are_taken(c: eodispatch.Connection) -> None:
    parameters = [Parameter("title", "string"), Parameter("two words", "string"), Parameter("n", "integer")]
    own = inspect.signature(c.service("ndvi_scene")._run)
    arguments = signature_of(parameters, own).parameters
    assert next(iter(arguments)) == "n" and "area" not in arguments and "two words" not in arguments
    assert arguments["n"].default is inspect.Parameter.empty
    assert arguments["title"].annotation == "str | None"  # the title of the job


def test_a_process_that_the_catalogue_does_not_list(c: eodispatch.Connection) -> None:
    process = c.process("ndvi-item", "simulated-ogc")
    assert [p.name for p in process.parameters if p.takes_area] == ["bbox"]
    assert process.run(BOX).wait().status == "finished"
    with pytest.raises(eodispatch.NotFound, match="simulated-openeo"):
        c.process("ndvi-item", "nowhere")


def test_an_estimate_submits_nothing(c: eodispatch.Connection) -> None:
    before = len(c.tasks())
    estimate = c.service("ndvi_composite").estimate(REGION, "2024-06", grid="20x20km")
    assert estimate.jobs == 14
    assert "14" in str(estimate) and "<table>" in estimate._repr_html_()
    assert len(c.tasks()) == before


def test_an_estimate_names_what_you_have_left_and_warns(c: eodispatch.Connection) -> None:
    assert c.service("ndvi_composite").estimate(BOX, "2024-06").balance == "500 credits"
    document = {"jobs": 2, "costs": None, "seconds": None, "balance": {"value": 0.5, "unit": "credits"}}
    assert "balance   0.5 credits" in str(Estimate.parse(document))
    assert "balance" not in str(Estimate.parse({"jobs": 2}))
    warned = Estimate.parse({**document, "warning": "That is less than you have left."})
    assert warned.warning in str(warned) and warned.warning in warned._repr_html_()


def test_all_faults_of_a_request(c: eodispatch.Connection) -> None:
    with pytest.raises(eodispatch.InvalidRequest) as caught:
        c.service("ndvi_composite").run(BOX, max_cloud_cover=300)
    error = caught.value
    assert (error.status, error.code) == (422, "VALIDATION_ERROR")
    assert len(error.faults) == 2 and error.request_id
    assert "max_cloud_cover" in str(error) and "temporal_extent" in str(error) and error.request_id in str(error)


def test_a_parameter_that_the_service_does_not_have(c: eodispatch.Connection) -> None:
    with pytest.raises(TypeError, match="no parameter 'cloud_cover'; it has: spatial_extent"):
        c.service("ndvi_composite").run(BOX, "2024-06", cloud_cover=3)


def test_a_service_that_there_is_not(c: eodispatch.Connection) -> None:
    with pytest.raises(eodispatch.NotFound, match=r"no service 'no/such\?service'.*services\(\) lists them") as caught:
        c.service("no/such?service")
    assert (caught.value.status, caught.value.code) == (404, "SERVICE_NOT_FOUND") and caught.value.request_id


@pytest.mark.parametrize("given", [{"budget": 0.1}, {"trial": 2}, {"options": {"budget": 3}}])
def test_what_only_a_task_has_is_refused_for_a_job(c: eodispatch.Connection, given: dict[str, Any]) -> None:
    before = len(c.jobs())
    with pytest.raises(TypeError, match="(budget|trial) is for tasks: it needs grid, split or each"):
        c.service("ndvi_composite").run(BOX, "2024-06", **given)
    assert len(c.jobs()) == before


def test_grids_and_tiles(c: eodispatch.Connection) -> None:
    assert "20x20km" in [grid["name"] for grid in c.grids()]
    tiles = c.tiles(REGION, "20x20km", order="centre")
    assert len(tiles) == len(tiles.ids) == 14 and "14 tiles" in repr(tiles)
    own = c.tiles(REGION, cells={"west": (5, 51, 5.4, 51.5), "east": (5.4, 51, 5.8, 51.5)})
    assert sorted(own.ids) == ["east", "west"]
