// Package realtest holds tests against real platform servers: pygeoapi, openeo_driver and titiler-openeo, each started on
// loopback from a Python environment that install.sh makes. A server that is missing is said and its tests are skipped;
// where CI=true, they fail.
package realtest
