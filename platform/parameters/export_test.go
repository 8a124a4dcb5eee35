package parameters

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Describe is [Reader.Describe] with a reader of its own.
func Describe(p dispatch.Parameter) dispatch.Parameter {
	return NewReader(context.Background()).Describe(p)
}

// NewSet is [Reader.NewSet] with a reader of its own.
func NewSet(described []dispatch.Parameter) *Set {
	return NewReader(context.Background()).NewSet(described)
}
