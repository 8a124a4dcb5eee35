package main

import (
	"os"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

func TestMain(m *testing.M) {
	code := postgres.Run(m)
	os.Exit(code)
}
