package parameters

import "testing"

// A value whose check panics does not count as valid.
func TestValidate_PanicIsNotAnAnswer(t *testing.T) {
	c := &compiled{}
	c.own.New = func() any { return &validator{} } // of no schema, so that its check panics
	defer func() {
		if recover() == nil {
			t.Error("the panic is held for an answer")
		}
	}()
	err := c.validate(1.0, nil)
	t.Errorf("the value is right, or wrong by %v", err)
}
