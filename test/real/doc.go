// Package real tests the broker with real platform servers: pygeoapi, openeo_driver and titiler-openeo, each started on
// the loopback interface from a Python environment that install.sh creates. Independent programs validate the broker's
// output: STAC by the schemas that pystac carries, and the tiles of real countries by GEOS. Tests whose server or
// validator is missing are skipped; with CI=true, they fail.
package real
