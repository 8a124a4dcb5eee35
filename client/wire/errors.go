package wire

// ErrorResponse is the body of every error response.
type ErrorResponse struct {
	Status    string         `json:"status" enum:"error"`
	ErrorCode string         `json:"error_code" example:"JOB_NOT_FOUND" doc:"Stable code for programs"`
	Message   string         `json:"message" example:"There is no such job." doc:"Explanation for people: plain text"`
	Details   map[string]any `json:"details" nullable:"true" doc:"Depends on error_code; null: there are none"`
	RequestID *string        `json:"request_id" nullable:"true" doc:"Equals the header X-Correlation-ID"`
}

// HTTPValidationError is the body of a 422 response. It lists all faults twice, in details.errors and in detail,
// because existing clients read one or the other.
type HTTPValidationError struct {
	ErrorResponse
	Detail []ValidationError `json:"detail" doc:"All faults of the request; the same list as details.errors"`
}

// ValidationError is one fault of a request.
type ValidationError struct {
	Loc  []any  `json:"loc" doc:"Location of the fault: names and indexes from the root of the request"`
	Msg  string `json:"msg"`
	Type string `json:"type"`
}
