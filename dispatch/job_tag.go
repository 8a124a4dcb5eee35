package dispatch

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
)

// maxNonces is the number of attempts of a job whose random parts are kept. Older attempts are no longer recognized: a
// platform job that one of them created stays at the platform, where it was not started if the platform creates and
// starts in two steps.
const maxNonces = 32

// Nonces are the random parts of the tags of a job's attempts, oldest first, written "ATTEMPT:NONCE" and joined by
// spaces. They make sure that a tag is never used twice, even if job ids are assigned again after the database was
// restored from a backup.
type Nonces string

// Of returns the random part of an attempt; "" if it is not known any more.
func (n Nonces) Of(attempt int) string {
	prefix := strconv.Itoa(attempt) + ":"
	for part := range strings.FieldsSeq(string(n)) {
		if nonce, found := strings.CutPrefix(part, prefix); found {
			return nonce
		}
	}
	return ""
}

// With returns n with the random part of one more attempt, and without the oldest beyond maxNonces.
func (n Nonces) With(attempt int, nonce string) Nonces {
	parts := append(strings.Fields(string(n)), strconv.Itoa(attempt)+":"+nonce)
	return Nonces(strings.Join(parts[max(0, len(parts)-maxNonces):], " "))
}

// NewNonce returns 40 random bits as eight letters and digits.
func NewNonce(Job) string { return strings.ToLower(rand.Text()[:8]) }

// Tag returns the text that marks this attempt at the platform, so that it can be recognized in a listing. The
// installation is a short text of letters and digits that no other broker has, so that two brokers that share an
// account do not touch each other's jobs.
func (j Job) Tag(installation string) string {
	return fmt.Sprintf("%s.%d.%d.%s", installation, j.ID, j.Attempt, j.Nonces.Of(j.Attempt))
}

// Tag is a parsed [Job.Tag].
type Tag struct {
	Job     JobID
	Attempt int
	Nonce   string
}

// ParseTag is the inverse of [Job.Tag]; ok is false for a tag of another installation.
func ParseTag(installation, text string) (t Tag, ok bool) {
	own, found := strings.CutPrefix(text, installation+".")
	if !found {
		return t, false
	}
	parts := strings.Split(own, ".")
	if len(parts) != 3 || parts[2] == "" {
		return t, false
	}
	id, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return t, false
	}
	if t.Attempt, err = strconv.Atoi(parts[1]); err != nil {
		return t, false
	}
	t.Job, t.Nonce = JobID(id), parts[2]
	return t, true
}

// Marks reports whether t is the tag of an attempt that j has made.
func (t Tag) Marks(j Job) bool {
	return t.Job == j.ID && t.Attempt <= j.Attempt && t.Nonce == j.Nonces.Of(t.Attempt)
}
