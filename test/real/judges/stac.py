"""Judges STAC objects by the schemas that pystac carries, without a network.

Reads {name: object} from standard input, and writes {name: [fault]} of those that are not valid.
"""

import json
import sys

from jsonschema import Draft7Validator
from pystac.validation.local_validator import VERSION, get_local_schema_cache
from referencing import Registry, Resource

KINDS = {"Collection": "collection", "Feature": "item", "Catalog": "catalog"}


def refuse_network(event, _):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise RuntimeError("a schema is not in the package: " + event)


def faults_of(stac, schemas, registry):
    kind = KINDS.get(stac.get("type"))
    if kind is None:
        return ["it is no STAC object: " + str(stac.get("type"))]
    schema = schemas[f"https://schemas.stacspec.org/v{VERSION}/{kind}-spec/json-schema/{kind}.json"]
    validator = Draft7Validator(schema, registry=registry, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message}"[:500] for error in validator.iter_errors(stac)]


def main():
    sys.addaudithook(refuse_network)
    schemas = get_local_schema_cache()
    registry = Registry().with_resources([(uri, Resource.from_contents(schema)) for uri, schema in schemas.items()])
    found = {}
    for name, stac in json.load(sys.stdin).items():
        if faults := faults_of(stac, schemas, registry):
            found[name] = faults
    json.dump({"version": VERSION, "faults": found}, sys.stdout)


main()
