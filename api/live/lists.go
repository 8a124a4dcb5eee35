package live

import (
	"context"
	"log/slog"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Services is the catalogue of services.
type Services interface {
	Find(id string) (catalogue.Service, bool)
}

// Sessions knows the sessions of browsers.
type Sessions interface {
	// Check returns nil if a session lasts.
	Check(ctx context.Context, cookie dispatch.Secret) error
}

// Config is what lists are made of.
type Config struct {
	Broker    Broker
	Services  Services        // the catalogue
	Secret    dispatch.Secret // signs cursors
	PublicURL string          // base URL that clients use, without a slash at its end
	Freshness time.Duration   // maximum age of a status before its platform is asked
	Compat    openapi.Compat
	// SignInLink returns the page where the user of an account signs in to its platform; nil: there are none.
	SignInLink func(dispatch.Account) string
	Linked     []string // names of the platforms at which users link an account
	Sessions   Sessions // nil: browsers have none
	Log        *slog.Logger
}

// Lists reads jobs, tasks and lists of them, once, after a change, or as a stream.
type Lists struct {
	*call.Answers
	*limits.Admission
	Config
	CursorKey []byte
	Life      context.Context // until the service stops
}

// New returns lists whose streams end with life.
func New(life context.Context, c Config, answers *call.Answers, admission *limits.Admission) *Lists {
	return &Lists{Answers: answers, Admission: admission, Config: c, CursorKey: cursorKey(c.Secret), Life: life}
}
