"""Processes for a pygeoapi server that the tests start: one for each shape of result, one that is slow, one that fails."""
import time

from pygeoapi.process.base import BaseProcessor, ProcessorExecuteError

BOTH = ["sync-execute", "async-execute"]


def described(name, inputs, outputs, modes=None):
    return {
        "version": "1.0.0",
        "id": name,
        "title": name,
        "description": f"For tests: {name}",
        "jobControlOptions": modes or BOTH,
        "keywords": ["test"],
        "links": [],
        "inputs": {key: {"title": key, "schema": schema, "minOccurs": 0, "maxOccurs": 1} for key, schema in inputs.items()},
        "outputs": {key: {"title": key, "schema": schema} for key, schema in outputs.items()},
        "example": {"inputs": {}},
    }


class Process(BaseProcessor):
    def __init__(self, definition):
        super().__init__(definition, self.description)


class Literals(Process):
    """Two numbers, made from what came in."""
    description = described("literals", {"numbers": {"type": "array", "items": {"type": "number"}}},
                            {"sum": {"type": "number"}, "count": {"type": "integer"}})

    def execute(self, data, outputs=None):
        numbers = data.get("numbers", [])
        return "application/json", {"sum": sum(numbers), "count": len(numbers)}


class Features(Process):
    """The box that came in, as GeoJSON."""
    description = described("features", {"bbox": {"type": "array", "items": {"type": "number"}}},
                            {"features": {"type": "object", "contentMediaType": "application/geo+json"}})

    def execute(self, data, outputs=None):
        west, south, east, north = data["bbox"]
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        feature = {"type": "Feature", "id": "box", "properties": {"area": (east - west) * (north - south)},
                   "geometry": {"type": "Polygon", "coordinates": [ring]}}
        return "application/geo+json", {"type": "FeatureCollection", "features": [feature]}


class ByLink(Process):
    """A file by link, as OGC 18-062r2 link.yaml has it."""
    description = described("by-link", {}, {"map": {"type": "string", "contentMediaType": "image/tiff"}})

    def execute(self, data, outputs=None):
        link = {"href": "https://files.example.org/map.tif", "type": "image/tiff; application=geotiff", "title": "the map"}
        return "application/json", {"map": link}


class Collection(Process):
    """A STAC Collection by value. It can only run asynchronously."""
    description = described("collection", {}, {"collection": {"type": "object"}}, ["async-execute"])

    def execute(self, data, outputs=None):
        asset = {"href": "https://files.example.org/ndvi.tif", "type": "image/tiff; application=geotiff", "roles": ["data"]}
        return "application/json", {
            "type": "Collection", "stac_version": "1.0.0", "id": "ndvi", "description": "NDVI", "license": "CC0-1.0",
            "extent": {"spatial": {"bbox": [[5, 50, 5.1, 50.1]]}, "temporal": {"interval": [["2024-06-01T00:00:00Z", None]]}},
            "links": [], "assets": {"ndvi": asset},
        }


class Formats(Process):
    """Says in which format its output was requested."""
    description = described("formats", {}, {"map": {"oneOf": [{"type": "string", "contentMediaType": media}
                                                              for media in ("image/tiff; application=geotiff", "application/x-netcdf")]}})

    def __init__(self, definition):
        super().__init__(definition)
        self.supports_outputs = True

    def execute(self, data, outputs=None):
        return "application/json", {"asked": outputs}


class Slow(Process):
    description = described("slow", {"seconds": {"type": "number"}}, {"slept": {"type": "number"}})

    def execute(self, data, outputs=None):
        time.sleep(data.get("seconds", 1))
        return "application/json", {"slept": data.get("seconds", 1)}


class Counted(Process):
    """Counts its runs in a file, and fails in the end for a negative number. Without a manager it only runs synchronously."""
    description = described("counted", {"seconds": {"type": "number"}}, {"slept": {"type": "number"}}, ["sync-execute"])

    def execute(self, data, outputs=None):
        with open("runs.txt", "a") as runs:
            runs.write("+")
        time.sleep(abs(data["seconds"]))
        if data["seconds"] < 0:
            raise ProcessorExecuteError("time does not run backwards")
        return "application/json", {"slept": data["seconds"]}


class Failing(Process):
    description = described("failing", {}, {"nothing": {"type": "object"}})

    def execute(self, data, outputs=None):
        raise ProcessorExecuteError("no scene without clouds was found")
