package dispatch

// IsRefused reports whether the platform refused j permanently.
func (j Job) IsRefused() bool {
	switch j.Attention {
	case None, RefusedForbidden, RefusedUnsupported, ApplicationInvalid:
		return j.Status == Failed && j.Ref == Ref{}
	}
	return false
}

// Refusal returns the error of a refused job, from what is stored in its row.
func (j Job) Refusal() error {
	e := InvalidBody("dispatch.Accept", j.Failure)
	switch j.Attention {
	case RefusedForbidden:
		e.Kind = Forbidden
	case RefusedUnsupported:
		e.Kind = Unsupported
	case ApplicationInvalid:
		e = InvalidBody("dispatch.Accept", j.Failure, "service", "application")
		e.Kind = DocumentInvalid
	}
	return e
}
