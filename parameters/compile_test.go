package parameters

import "testing"

// TestValidate_PanicIsNotAnAnswer: a value whose check panics has not been found right.
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
