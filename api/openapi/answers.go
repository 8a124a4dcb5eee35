package openapi

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/client/wire"
)

const Revalidate = "private, no-cache" // for responses that change without a request

// Plain is a response that is nothing but a body.
type Plain[T any] struct{ Body T }

type Status[T any] struct {
	CacheControl string `header:"Cache-Control"`
	Body         T
}

type Tagged[T any] struct {
	CacheControl string `header:"Cache-Control"`
	ETag         string `header:"ETag"`
	Body         T
}

type Nothing = Plain[any]

// StatusOf returns a response that changes without a request.
func StatusOf[T any](body T) *Status[T] { return &Status[T]{Revalidate, body} }

// TaggedOf returns a response that changes without a request, and its ETag.
func TaggedOf[T any](tag string, body T) *Tagged[T] { return &Tagged[T]{Revalidate, tag, body} }

// WithTiles adds the response of /tiles.
func WithTiles(a *Document, all map[string]*huma.Response) map[string]*huma.Response {
	all["201"] = answer("The tiles", mediaJSON, schemaOf[wire.GeometryCollection](a), nil)
	return all
}

var reasons = map[int]string{
	401: "AUTHENTICATION_FAILED: the request has no token, or none that is valid",
	403: "FORBIDDEN: you are not permitted to do this",
	404: "There is no such thing, or it is another user's: JOB_NOT_FOUND, TASK_NOT_FOUND, HOOK_NOT_FOUND, " +
		"GRANT_NOT_FOUND or SERVICE_NOT_FOUND. DOCUMENT_NOT_FOUND, RESULTS_NOT_FOUND: the job has none",
	408: "REQUEST_TIMEOUT: the request body did not arrive in time",
	409: "CONFLICT: the current state does not allow the request. SIGN_IN_REQUIRED: you must link or renew an " +
		"account, at details.link",
	413: "PAYLOAD_TOO_LARGE: the request body is larger than the limit",
	415: "UNSUPPORTED_MEDIA_TYPE: the request body is not JSON in UTF-8, or is compressed",
	422: "VALIDATION_ERROR: the request is not valid; all its faults are listed. APPLICATION_INVALID: the document " +
		"at the application's address defines no service, or is refused",
	429: "RATE_LIMITED: a limit of the broker is reached, such as the number of your unfinished jobs",
	500: "INTERNAL_ERROR: the service failed; report request_id to its operator if it fails again",
	501: "UNSUPPORTED: the platform, or this service, does not support the operation",
	502: "PLATFORM_ERROR: the platform responded wrongly. PLATFORM_UNCERTAIN: the platform may have accepted the " +
		"request",
	503: "PLATFORM_BUSY, PLATFORM_UNAVAILABLE, or SERVICE_UNAVAILABLE, such as when the database does not respond: " +
		"repeat later. APPLICATION_UNREACHABLE: the document at the application's address cannot be fetched",
	504: "PLATFORM_UNAVAILABLE: the platform did not respond in time",
}

// Errors describes the error responses of these statuses, and of 429 and 500, which every operation can return.
func (a *Document) Errors(statuses ...int) map[string]*huma.Response {
	all := map[string]*huma.Response{}
	if a.SessionCookie != "" && slices.Contains(statuses, http.StatusUnauthorized) &&
		!slices.Contains(statuses, http.StatusForbidden) {
		statuses = append(statuses, http.StatusForbidden) // a session used by another page
	}
	for _, status := range append(statuses, http.StatusInternalServerError, http.StatusTooManyRequests) {
		body := schemaOf[wire.ErrorResponse](a)
		if status == http.StatusUnprocessableEntity {
			body = schemaOf[wire.HTTPValidationError](a)
		}
		all[strconv.Itoa(status)] = answer(reasons[status], mediaJSON, body, headers[status])
	}
	return all
}

// headers are those that come with an error response of a status.
var headers = map[int]map[string]*huma.Param{
	401: {"WWW-Authenticate": {Schema: text, Example: "Bearer",
		Description: "Bearer, with error=\"invalid_token\" if the token is not valid (RFC 6750)"}},
	429: {"Retry-After": {Description: "Seconds", Schema: &huma.Schema{Type: huma.TypeInteger}}},
	503: {"Retry-After": {Description: "Seconds; absent if the platform did not name any",
		Schema: &huma.Schema{Type: huma.TypeInteger}}},
}

// answer is a response that the document describes by hand, because the package encodes it itself.
func answer(description, media string, schema *huma.Schema, headers map[string]*huma.Param) *huma.Response {
	return &huma.Response{Description: description, Headers: headers,
		Content: map[string]*huma.MediaType{media: {Schema: schema}}}
}

const mediaJSON = "application/json"

// schemaOf returns the schema of a type.
func schemaOf[T any](a *Document) *huma.Schema {
	return a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}

var text = &huma.Schema{Type: huma.TypeString}

// WithNull adds a 200 response whose body is null.
func WithNull(all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = answer("Done", mediaJSON, &huma.Schema{Type: "null"}, nil)
	return all
}

// WithBody adds a 200 response of type T that the package encodes itself.
func WithBody[T any](a *Document, all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = answer("OK", mediaJSON, schemaOf[T](a), map[string]*huma.Param{"Cache-Control": {Schema: text},
		"ETag": {Schema: text}, "Link": {Schema: text, Description: "Address of the next page"}})
	return all
}

// WithNotModified adds the 304 response.
func WithNotModified(all map[string]*huma.Response) map[string]*huma.Response {
	all["304"] = &huma.Response{Description: "The client's copy is current",
		Headers: map[string]*huma.Param{"ETag": {Schema: text}}}
	return all
}

// WithGeoJSON adds a 200 response in GeoJSON.
func WithGeoJSON[T any](a *Document, all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = answer("GeoJSON", wire.MediaGeoJSON, schemaOf[T](a), nil)
	return all
}

// WithDocument adds a 200 response that is any JSON document.
func WithDocument(all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = answer("The document", mediaJSON, &huma.Schema{},
		map[string]*huma.Header{"ETag": {Description: "Its SHA-256", Schema: text}})
	return all
}

// WithGoingOn adds the 202 response of a request that became a job, and the job's address if that failed.
func WithGoingOn(a *Document, all map[string]*huma.Response) map[string]*huma.Response {
	all["202"] = answer("The job goes on", mediaJSON, schemaOf[wire.ProcessingJobSummary](a), asJob)
	all["409"].Headers, all["502"].Headers = asJob, asJob
	return all
}

// asJob are the headers of a response to a synchronous request that became a job.
var asJob = map[string]*huma.Param{"Location": {Schema: text, Description: "Address of the job"},
	"Preference-Applied": {Schema: text, Description: "The wait in seconds, such as wait=20"}}

// WithBytes adds a 200 response of any media type.
func WithBytes(all map[string]*huma.Response) map[string]*huma.Response {
	// Generators of clients understand this one. With application/json beside it, clients in Python would decode every
	// result, because they take the first type that they know.
	all["200"] = answer("The platform's result, of any media type. With the header Location: the request became a "+
		"job, and this is a Collection in JSON, as in GET /unit_jobs/{job_id}/results", "application/octet-stream",
		&huma.Schema{Type: huma.TypeString, Format: "binary"}, asJob)
	all["200"].Content["*/*"] = &huma.MediaType{Schema: &huma.Schema{}}
	return all
}
