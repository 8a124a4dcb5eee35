package dispatch

import "strings"

// Versions says which software runs a job, in the words of its platform: bounded plain text, "" for what the platform
// does not name, and which definition.
type Versions struct {
	Software string `json:"software,omitempty"` // the name of the platform's software
	Version  string `json:"version,omitempty"`  // of that software, or of the back-end as a whole
	API      string `json:"api,omitempty"`      // of the protocol
	Process  string `json:"process,omitempty"`  // of the process that the job runs

	// Definition is the hash of the document that defined the service when the job was submitted; "" if the job is
	// pinned to one, or it is not known.
	Definition string `json:"definition,omitempty"`
}

// Platform returns the platform's software in one line; "" if it is not known.
func (v Versions) Platform() string {
	text := v.Software + " " + v.Version
	if v.API != "" {
		text += " (API " + v.API + ")"
	}
	return strings.Join(strings.Fields(text), " ")
}
