package openeo

import "github.com/eodispatch/eodispatch/dispatch"

// resultsLink is what a link to results stands for. It is encrypted, because URLs are logged and passed on, and it
// names a user.
type resultsLink struct {
	User     dispatch.UserID `json:"u"`
	ID       string          `json:"i"` // of the batch job
	Platform string          `json:"p"` // of the view; "": all
	Expires  int64           `json:"e"` // seconds since 1970
}

const resultsPurpose = "openeo results"
