package openeo

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

// found is a document of one platform, or why there is none.
type found struct {
	dispatch.Publication
	err error
}

// readAll reads a document of several platforms at once.
func (f *Facade) readAll(r *request, backends []*dispatch.Backend, path string) []found {
	all := make([]found, len(backends))
	var reading sync.WaitGroup
	for i, b := range backends {
		reading.Go(func() { all[i].Publication, all[i].err = f.read(r, b, path) })
	}
	reading.Wait()
	return all
}

// mergedPublication returns what all platforms publish at the path of a request.
func (f *Facade) mergedPublication(*request) (*answer, error) { return nil, errUnsupported }

// choose returns the platform that runs a process of the merged view.
func (f *Facade) choose(*request, map[string]json.RawMessage) (*dispatch.Backend, error) {
	return nil, refused(http.StatusBadRequest, "ProcessUnsupported", "Name the platform.")
}
