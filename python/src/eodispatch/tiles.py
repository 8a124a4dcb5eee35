"""The tiles of an area."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .extras import geopandas


class Tiles(Sequence[dict[str, Any]]):
    """The tiles of an area: GeoJSON geometries with the ids of their cells.

    It is GeoJSON for other libraries (`__geo_interface__`), and values for the argument `each` of a service.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.geometries: list[dict[str, Any]] = list(document["geometries"])
        self.ids: list[str] = list(document.get("ids") or [""] * len(self.geometries))

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        features = [
            {"type": "Feature", "id": name, "geometry": geometry, "properties": {"name": name}}
            for name, geometry in zip(self.ids, self.geometries)
        ]
        return {"type": "FeatureCollection", "features": features}

    def to_geopandas(self) -> Any:
        """A GeoDataFrame with the columns name and geometry."""
        return geopandas().GeoDataFrame.from_features(self.__geo_interface__, crs=4326)

    def __getitem__(self, index: Any) -> Any:
        return self.geometries[index]

    def __len__(self) -> int:
        return len(self.geometries)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.geometries)

    def __repr__(self) -> str:
        shown = ", ".join(self.ids[:3]) + (", …" if len(self) > 3 else "")
        return f"<{len(self)} tiles: {shown}>"
