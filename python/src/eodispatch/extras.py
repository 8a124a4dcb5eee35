"""Libraries that not everybody has installed."""

from __future__ import annotations

import importlib
from typing import Any


def _load(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install 'eodispatch[{extra}]'") from error


def geopandas() -> Any:
    """GeoPandas."""
    return _load("geopandas", "geo")


def pandas() -> Any:
    """pandas."""
    return _load("pandas", "geo")


def odc_stac() -> Any:
    """odc-stac, and the accessor rio of the datasets that it makes."""
    _load("rioxarray", "xarray")
    return _load("odc.stac", "xarray")


def rasterio() -> Any:
    """rasterio."""
    return _load("rasterio", "xarray")
