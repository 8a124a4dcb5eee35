// Package bounds bounds what an input from outside may cost: how large it may be, and how many steps the work on it may
// take. Each bound has a name, a default and a unit; docs/security.md lists them.
package bounds

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
)

// Bound is a named limit.
type Bound struct {
	Name string // as docs/security.md lists it, for example "schema_nodes"
	Most int64
	Unit string // plural, for example "bytes"
}

// The bounds with their defaults.
var (
	// NumberLength is the length of one JSON number.
	NumberLength = Bound{"number_length", 10_000, "characters"}
	// NumberExponent is the absolute value of the exponent of one JSON number.
	NumberExponent = Bound{"number_exponent", 400, "powers of ten"}

	// SchemaNodes is the number of JSON values in the schemas of one service.
	SchemaNodes = Bound{"schema_nodes", 20_000, "JSON values"}
	// SchemaDepth is how deep the JSON of one schema nests.
	SchemaDepth = Bound{"schema_depth", 64, "levels"}
	// SchemaSteps is the work of following alternatives and references in the schemas of one service.
	SchemaSteps = Bound{"schema_steps", 20_000, "steps"}
	// SchemaVisits is the number of schemas that judge one and the same value.
	SchemaVisits = Bound{"schema_visits", 1_000, "schemas for one value"}
	// SchemaPattern is the size of one compiled regular expression in a schema.
	SchemaPattern = Bound{"schema_pattern", 2_000, "instructions"}
	// ServiceParameters is the number of parameters of one service.
	ServiceParameters = Bound{"service_parameters", 5_000, "parameters"}
	// CheckSteps is the work of checking the parameters of one request against their schemas, besides two steps for
	// each byte of the parameters.
	CheckSteps = Bound{"check_steps", 4_000_000, "steps"}

	// GraphBytes is the size of one process graph after its parameters have been put in.
	GraphBytes = Bound{"graph_bytes", 32 << 20, "bytes"}

	// OpenBody is the size of one request body of somebody who has not signed in.
	OpenBody = Bound{"open_body", 1 << 20, "bytes"}
	// TaskResults is the size of the results of one task in one document.
	TaskResults = Bound{"task_results", 32 << 20, "bytes"}

	// UserProcess is the size of one process that a user stores.
	UserProcess = Bound{"user_process", 2 << 20, "bytes"}
	// UserProcesses is the number of processes that one user stores.
	UserProcesses = Bound{"user_processes", 1_000, "processes"}
	// UserProcessesBytes is the size of all processes that one user stores.
	UserProcessesBytes = Bound{"user_processes_bytes", 32 << 20, "bytes"}

	// AnswerBytes is the size of one answer of a platform, both as it was sent and unpacked.
	AnswerBytes = Bound{"answer_bytes", 10 << 20, "bytes"}
	// AnswerError is the size of the body of an answer that is an error; a longer one is ignored.
	AnswerError = Bound{"answer_error", 64 << 10, "bytes"}
	// AnswerValues is the number of objects, arrays, strings and literals in one JSON answer; numbers do not count.
	AnswerValues = Bound{"answer_values", 1_000_000, "JSON values"}
	// AnswersHeld is how many operations on one platform hold answers above 262,144 bytes in memory at once.
	AnswersHeld = Bound{"answers_held", 4, "operations"}
	// PagesBytes is the size of all pages of one list of jobs, or of one log.
	PagesBytes = Bound{"pages_bytes", 64 << 20, "bytes"}
	// ResultsBytes is the size of all documents that make up the results of one job.
	ResultsBytes = Bound{"results_bytes", 32 << 20, "bytes"}
	// ResultsEntries is the number of assets, links and features in the results of one job.
	ResultsEntries = Bound{"results_entries", 50_000, "assets, links and features"}

	// TilesBody is the size of one request to /tiles.
	TilesBody = Bound{"tiles_body", 1 << 20, "bytes"}
	// TilesPositions is the number of positions of one area.
	TilesPositions = Bound{"tiles_positions", 100_000, "positions"}
	// TilesSteps is the work of checking and cutting one area; it bounds the CPU time to about a second.
	TilesSteps = Bound{"tiles_steps", 20_000_000, "steps"}
	// AreaSteps is the work on the areas of one request or job that are only shown, or estimated from.
	AreaSteps = Bound{"area_steps", 500_000, "steps"}
	// TilesBytes is the size of one answer of /tiles.
	TilesBytes = Bound{"tiles_bytes", 32 << 20, "bytes"}

	// CatalogueDocument is the size of one document of a source of the catalogue.
	CatalogueDocument = Bound{"catalogue_document", 4 << 20, "bytes"}
	// CatalogueDocuments is the number of documents of one source of the catalogue.
	CatalogueDocuments = Bound{"catalogue_documents", 5_000, "documents"}
	// CatalogueBytes is the size of all documents of one source of the catalogue.
	CatalogueBytes = Bound{"catalogue_bytes", 32 << 20, "bytes"}
	// CatalogueRecords is the number of records of one source of the catalogue.
	CatalogueRecords = Bound{"catalogue_records", 5_000, "records"}
)

// All gives every bound, in the order of docs/security.md.
func All() []Bound {
	return []Bound{NumberLength, NumberExponent, SchemaNodes, SchemaDepth, SchemaSteps, SchemaVisits, SchemaPattern,
		ServiceParameters, CheckSteps, GraphBytes,
		OpenBody, TaskResults, UserProcess, UserProcesses, UserProcessesBytes,
		AnswerBytes, AnswerError, AnswerValues, AnswersHeld, PagesBytes, ResultsBytes, ResultsEntries,
		TilesBody, TilesPositions, TilesSteps, AreaSteps, TilesBytes,
		CatalogueDocument, CatalogueDocuments, CatalogueBytes, CatalogueRecords}
}

// Exceeded is the error for an input that is larger than a bound allows. Its text is safe to show to a user.
type Exceeded struct{ Bound Bound }

func (e *Exceeded) Error() string {
	return fmt.Sprintf("more than %s %s (bound %s)", Thousands(e.Bound.Most), e.Bound.Unit, e.Bound.Name)
}

// Thousands writes n with commas between groups of three digits.
func Thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Check returns an [*Exceeded] if n is above the bound.
func (b Bound) Check(n int64) error {
	if n > b.Most {
		return b.Refuse()
	}
	return nil
}

// Refuse returns the [*Exceeded] of the bound, and counts it.
func (b Bound) Refuse() *Exceeded {
	refusals.count(b.Name)
	return &Exceeded{b}
}

// Refusals returns how often each bound has refused an input since the process started.
func Refusals() map[string]int64 { return refusals.all() }

var refusals counts

// counts counts by name.
type counts struct {
	mu sync.Mutex
	m  map[string]int64
}

func (c *counts) count(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]int64{}
	}
	c.m[name]++
}

func (c *counts) all() map[string]int64 {
	every := map[string]int64{}
	for _, b := range All() {
		every[b.Name] = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(every, c.m)
	return every
}

// Meter counts steps against a bound and stops when a context ends. It is for one goroutine. A nil Meter counts nothing
// and never stops.
type Meter struct {
	ctx     context.Context
	bound   Bound
	spent   int64
	checkAt int64 // the value of spent at which the context is checked next
	err     error
}

// Meter returns a meter for the bound.
func (b Bound) Meter(ctx context.Context) *Meter { return &Meter{ctx: ctx, bound: b} }

// checkEvery is how many steps pass between two checks of the context.
const checkEvery = 4096

// Spend counts n steps and reports whether the work may continue. After it has returned false, it always returns false.
func (m *Meter) Spend(n int) bool {
	switch {
	case m == nil:
		return true
	case m.err != nil:
		return false
	}
	m.spent += int64(n)
	if m.spent > m.bound.Most {
		m.err = m.bound.Refuse()
		return false
	}
	if m.spent >= m.checkAt {
		m.checkAt = m.spent + checkEvery
		m.err = m.ctx.Err()
	}
	return m.err == nil
}

// Err returns why the work must stop: an [*Exceeded], the error of the context, or nil.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}

// Spent returns the number of steps so far.
func (m *Meter) Spent() int64 {
	if m == nil {
		return 0
	}
	return m.spent
}
