package program

import (
	"strings"
	"testing"
)

// TestMemoryLimit_IsLogged by the real program.
func TestMemoryLimit_IsLogged(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	p := Start(t, append(deployed(w, asUser, asUser), "EODISPATCH_LIMITS_MEMORY=1GiB")...)
	if said := p.Log.String(); !strings.Contains(said,
		`"msg":"memory limit","source":"limits.memory","bytes":1073741824`) {
		t.Errorf("the limit is not in:\n%s", said)
	}
	p.Stop(t)
}
