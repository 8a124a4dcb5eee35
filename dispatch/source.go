package dispatch

import "time"

// Source is what was last read from one source of the catalogue of services: a folder, or a URL and the documents that
// it leads to.
type Source struct {
	Name      string // the folder or URL, as configured
	Documents []SourceDocument
	Read      time.Time // when the source was last read to its end; zero: never
	// why the last reading failed or was not complete; "": it was. What was not read then is of an earlier reading
	Failure  string
	Revision int64 // differs between two states whose documents or failure differ
}

// SourceDocument is one document of a source.
type SourceDocument struct {
	Address string    `json:"address"` // URL, or path in the folder
	ETag    string    `json:"etag,omitempty"`
	Text    string    `json:"text,omitempty"`    // JSON; "": it was never read
	Read    time.Time `json:"read,omitzero"`     // when the text was last read or confirmed
	Failure string    `json:"failure,omitempty"` // why the text could not be read again; "": it is current
}

// SourceState is the state by which a process decides whether to read a source, or to load it again.
type SourceState struct {
	Revision int64
	Due      bool // no process has claimed it, and it is time to read it again
}

// SourceClaim permits a process to read a source, until another process may claim it.
type SourceClaim struct {
	Source
	Number int64
	Now    time.Time // by the store's clock
}
