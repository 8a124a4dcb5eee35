package parameters

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Steps returns the work so far: JSON values read, and alternatives and references followed.
func (r *Reader) Steps() int64 { return r.nodes.Spent() + r.steps.Spent() }

// Describe is [Reader.Describe] with a reader of its own.
func Describe(p dispatch.Parameter) dispatch.Parameter {
	return NewReader(context.Background()).Describe(p)
}

// NewSet is [Reader.NewSet] with a reader of its own.
func NewSet(described []dispatch.Parameter) *Set {
	return NewReader(context.Background()).NewSet(described)
}
