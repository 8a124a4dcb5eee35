package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// A list is read once and sent as it was read, until it does not fit in memory even when it is packed: then the
// database is read to the end of what fits, from there on for the digest, and once more for the response.
func TestSnapshot_ReadsListsOnceThatFitPacked(t *testing.T) {
	const size, jobs = 128 << 10, heldBytes>>17 + 16
	random := rand.New(rand.NewPCG(1, 2))
	noise := func() string {
		text := make([]byte, size)
		for i := range text {
			text[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[random.IntN(64)]
		}
		return string(text)
	}
	for _, row := range []struct {
		name  string
		text  func() string
		reads int
	}{
		{"a list that repeats itself", func() string { return strings.Repeat("8.25,47.5,", size/10) }, 1},
		{"a list that cannot be packed", noise, 3},
	} {
		w := newWorld()
		for id := range dispatch.JobID(jobs) {
			r := largeRecord(id+1, anna, 0)
			r.Request.Parameters = fmt.Appendf(nil, `{"n":%d,"x":"%s"}`, id+1, row.text())
			w.jobs[id+1] = r
		}
		h := New(w.config())
		got := ask(h, "GET", "/jobs_status?filter=processing", "")
		list := decode[wire.JobsStatusResponse](t, got, 200)
		if len(list.ProcessingJobs) != jobs || len(w.asked) != row.reads {
			t.Errorf("%s: %d jobs after %d reads", row.name, len(list.ProcessingJobs), len(w.asked))
		}
		for i, j := range list.ProcessingJobs {
			if want := w.jobs[dispatch.JobID(jobs-i)]; j.ID != int64(want.ID) ||
				!bytes.Equal(j.Parameters, want.Request.Parameters) {
				t.Fatalf("%s: at %d stands job %d, or its parameters differ", row.name, i, j.ID)
			}
		}
		if tag := ask(h, "GET", "/jobs_status?filter=processing", "", "If-None-Match",
			got.Header().Get("ETag")); tag.Code != 304 {
			t.Errorf("%s: the same list is answered with %d", row.name, tag.Code)
		}
		h.Close()
	}
}

// What is packed is written as it was added, whatever the pieces.
func TestPacked_WritesWhatWasAdded(t *testing.T) {
	var p packed
	var want bytes.Buffer
	for i, size := range []int{0, 1, 17, pieceSize - 1, pieceSize, pieceSize + 1, 3*pieceSize + 5} {
		text, _ := json.Marshal(strings.Repeat(fmt.Sprint(i), size))
		want.Write(text)
		p.add(text)
	}
	for range 2 {
		var got bytes.Buffer
		if err := p.writeTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%d bytes of %d: %v", got.Len(), want.Len(), err)
		}
	}
	if p.size >= want.Len()/10 {
		t.Errorf("%d bytes take %d", want.Len(), p.size)
	}
}
