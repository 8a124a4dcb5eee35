package main

import (
	"io"

	"github.com/eodispatch/eodispatch/client/cli"
)

// clean writes texts that come from servers without what would steer a terminal. A Write must hold whole characters.
type clean struct{ to io.Writer }

// Write implements [io.Writer].
func (c clean) Write(b []byte) (int, error) {
	if _, err := io.WriteString(c.to, cli.Printable(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
