// Package facade is how the HTTP server offers the broker in the words of standards besides its own interface: what a
// façade provides, and what the server does for it.
package facade

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
	"github.com/eodispatch/eodispatch/identity"
)

// Within bounds the time in which a façade answers a request whose response is not streamed.
const Within = 110 * time.Second

// ErrTooSlow is the cause of the end of a request's context after Within.
var ErrTooSlow = errors.New("the request took too long")

// WithDeadline returns ctx with the deadline of a request whose response is not streamed.
func WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, Within, ErrTooSlow)
}

// ProcessesUnstarted begins the bodies of unstarted jobs of OGC API - Processes, by which other interfaces know that
// they are not theirs.
const ProcessesUnstarted = `{"ogcapi":`

// Facade is a further HTTP interface of the broker.
type Facade interface {
	// Paths are the paths at and below which the façade serves, for example "/openeo". They have no slash at their end.
	Paths() []string
	// Serve answers every request to Paths and below them, of any method. The server has already limited the rate of
	// the client's address, sets a correlation id, logs the request with its Pattern, and recovers from panics. CORS
	// and authentication are the façade's; it serves paths with doubled slashes without a redirect.
	Serve(s Server, w http.ResponseWriter, r *http.Request)
	// Refuse writes a refusal of the server itself in the form of the façade, with its CORS headers.
	Refuse(w http.ResponseWriter, r *http.Request, p Problem)
}

// Server is what the server does for façades.
type Server interface {
	// BaseURL returns the absolute URL at which clients reach the server, without a slash at its end: the configured
	// one or, if there is none, that of the request.
	BaseURL(*http.Request) string
	// SignIn verifies a token: what follows "Bearer ", without a prefix of the façade's standard; "": the request has
	// none. It applies the rate limits of the user and counts the request among the user's. Afterwards the context of r
	// contains the caller.
	SignIn(r *http.Request, token dispatch.Secret) (identity.Caller, error)
	// ReadBody reads a body that is JSON in UTF-8, within the limits of the server on its size, time, nesting and
	// members; nil if the request has none. Bodies of all requests that are being served are bounded together: those of
	// one user, and those of all who have not signed in.
	ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error)
	// Stream writes a response of any length as it can be read, and waits for neither more than a minute. The request
	// no longer counts among those that are served at once. An error means that the response is incomplete, or was not
	// begun because the server stops.
	Stream(w http.ResponseWriter, r *http.Request, status int, from io.Reader) error
	// RunSync runs a request of the caller, who waits, and returns when its result begins. The result's Body must be
	// closed; Stream writes it. The request no longer counts among those that are served at once.
	RunSync(w http.ResponseWriter, r *http.Request, run dispatch.Request) (*dispatch.SyncResult, error)
	// Key reads the header Idempotency-Key, with which a client repeats a request without effect.
	Key(r *http.Request, body []byte) (dispatch.Key, error)
	// BeginWait counts a request among those of its user that wait, and no longer among those that are served at once,
	// until end is called. The returned context also ends when the server stops.
	BeginWait(context.Context) (waiting context.Context, end func(), err error)
	// AwaitEnd returns a job when it has ended, or as it was last read when the wait is over, the server stops, or the
	// job cannot be read. A user with too many requests that wait does not wait.
	AwaitEnd(ctx context.Context, job dispatch.Record, wait time.Duration) dispatch.Record
	// InTurns returns a list of a user's jobs whose reading, once it is long, takes turns with that of other long
	// lists: so many requests for them leave a core to the short requests of other users. The list must be read
	// without a pause.
	InTurns(context.Context, dispatch.UserID, iter.Seq2[dispatch.Record, error]) iter.Seq2[dispatch.Record, error]
	// Split returns the tiles of an area in the cells of a grid, most of them at most. The area is a bounding box in
	// longitude and latitude, which isBox reports, or GeoJSON. Requests of one user, or without one of one address,
	// take turns.
	Split(ctx context.Context, g *grid.Grid, area json.RawMessage, most int) (tiles []grid.Tile, isBox bool, err error)
	// Provenance returns how the results of a job of the user who has signed in came about, in PROV-JSON.
	Provenance(context.Context, dispatch.Record) (any, error)
	// SignInLink returns the page where the user of an account signs in to its platform, or links an account there; ""
	// if there is none.
	SignInLink(dispatch.Account) string
	// Problem returns what a client may know of an error, and logs what it may not.
	Problem(ctx context.Context, err error) Problem
	// Seal signs a text for a user and a purpose. Unseal returns it if it was sealed for the same user and purpose. The
	// text can be read by anybody.
	Seal(u dispatch.UserID, purpose string, text []byte) string
	Unseal(u dispatch.UserID, purpose, sealed string) (text []byte, ok bool)
}

// Problem is an error as a client may see it.
type Problem struct {
	Status    int  // of HTTP
	Own       bool // the server itself refused the request: its token, its body or its rate. Then Kind has no meaning
	Kind      dispatch.Kind
	Message   string // plain text for people
	Faults    []dispatch.Fault
	Link      string            // where the user can resolve it; "": nowhere
	Header    map[string]string // to be sent with it, for example Retry-After
	RequestID string
}

// GridNames returns the names of all grids by which an area can be split.
func GridNames() (names []string) {
	for g := range grid.All() {
		names = append(names, g.Name)
	}
	return names
}

// AreaOf returns the name of the first parameter that is an area; "" if there is none.
func AreaOf(parameters []dispatch.Parameter) string {
	for _, p := range parameters {
		if p.Type == dispatch.BoundingBox || p.Type == dispatch.Polygon {
			return p.Name
		}
	}
	return ""
}
