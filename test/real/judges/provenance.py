"""Judges PROV-JSON with the library prov, without a network.

Reads {name: document} from standard input, and writes {name: [fault]} of those that are not valid.
"""

import json
import sys
from datetime import datetime

from prov.model import PROV_ATTRIBUTE_QNAMES, ProvDocument, ProvElement, ProvRelation


def refuse_network(event, _):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise RuntimeError("a document asks for the network: " + event)


def times(given):
    """Returns the times of activities that are none; the library leaves them out."""
    faults = []
    for name, activity in given.get("activity", {}).items():
        for member in ("prov:startTime", "prov:endTime"):
            try:
                datetime.fromisoformat(activity.get(member, "2026-01-01T00:00:00Z"))
            except ValueError as error:
                faults.append(f"{member} of {name}: {error}")
    return faults


def faults_of(given):
    try:
        document = ProvDocument.deserialize(content=json.dumps(given), format="json")
    except Exception as error:
        return [f"{type(error).__name__}: {error}"[:500]]
    faults = times(given)
    if document != ProvDocument.deserialize(content=document.serialize(format="json"), format="json"):
        faults.append("it is another document after it was written")
    known = {element.identifier for element in document.get_records(ProvElement)}
    for relation in document.get_records(ProvRelation):
        for name, value in relation.attributes:
            if name in PROV_ATTRIBUTE_QNAMES and value not in known:
                faults.append(f"{name} of a {relation.get_type()} is {value}, which is not described")
    if not known:
        faults.append("it describes nothing")
    return faults


def main():
    sys.addaudithook(refuse_network)
    found = {}
    for name, given in json.load(sys.stdin).items():
        if faults := faults_of(given):
            found[name] = faults
    json.dump(found, sys.stdout)


main()
