package events

import (
	"testing"
	"time"
)

// TestSigned_AsTheStandardsExample: the example of the documentation of Standard Webhooks.
func TestSigned_AsTheStandardsExample(t *testing.T) {
	h, err := headers("whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", time.Unix(1731705121, 0), []byte(`{"event_type":"ping","data":{"success":true}}`))
	if err != nil || h.Get("Webhook-Signature") != "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=" || h.Get("Webhook-Timestamp") != "1731705121" {
		t.Errorf("%v, %v", h, err)
	}
}

func TestPause_GrowsToItsBound(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: first, 2: 2 * first, 4: 8 * first, 11: longest, 1 << 40: longest} {
		if got := pause(failures, longest); got != want {
			t.Errorf("after %d failures %v, not %v", failures, got, want)
		}
	}
}

// TestLease_IsLongerThanARound: while a round lasts, no other process takes its deliveries.
func TestLease_IsLongerThanARound(t *testing.T) {
	if longest := round/parallel*tryWithin + storing; longest >= lease {
		t.Errorf("a round takes up to %v", longest)
	}
}
