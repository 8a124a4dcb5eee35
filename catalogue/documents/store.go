package documents

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Store compares the documents that define services with those that waiting jobs were accepted with.
type Store interface {
	// Origins returns the origins of all documents that define the services of waiting jobs.
	Origins(context.Context) ([]dispatch.Origin, error)
	// Definition returns the document that defined the service of a job when it was accepted. NotFound if none was
	// stored.
	Definition(context.Context, dispatch.JobID) ([]byte, error)
	// SetDocumentHash stores that the document of an origin now has this hash. Tasks and jobs that wait and were
	// accepted with another document show [dispatch.ServiceChanged] from now on; those accepted with this one do not:
	// see [dispatch.TaskRecord] and [dispatch.Record]. It returns the owner of each task, and of each job without a
	// task, whose display changes.
	SetDocumentHash(ctx context.Context, o dispatch.Origin, hash string) ([]dispatch.UserID, error)
}
