// Package real holds tests against real platform servers: pygeoapi, openeo_driver and titiler-openeo, each started on
// loopback from a Python environment that install.sh makes. It also has what we give judged by programs that are not ours:
// STAC by the schemas that pystac carries, and the tiles of real countries by GEOS. A server or judge that is missing is
// said and its tests are skipped; where CI=true, they fail.
package real
