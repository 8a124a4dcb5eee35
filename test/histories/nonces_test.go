package histories

import (
	"fmt"
	"hash/fnv"

	"github.com/eodispatch/eodispatch/dispatch"
)

// nonce returns the random part of a tag. It depends only on the seed, the job and the attempt, so that a history can
// be replayed.
func (h *history) nonce(j dispatch.Job) string {
	f := fnv.New32a()
	fmt.Fprint(f, h.seed, " ", j.ID, " ", j.Attempt)
	return fmt.Sprintf("%08x", f.Sum32())
}
