package broker_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// The tests of this file sleep in bubbles of testing/synctest, which with makes.

// filePlatform opens files by the links that it signs, for as long as they are valid.
type filePlatform struct {
	*signingPlatform
	opened []string
	tokens []dispatch.Secret
	refuse int // how many links it refuses
}

func (p *filePlatform) OpenFile(_ context.Context, t dispatch.Token, r dispatch.FileRequest) (*dispatch.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens = append(p.tokens, t.Secret)
	if p.opened = append(p.opened, r.URL); len(p.opened) <= p.refuse {
		return nil, &dispatch.Error{Kind: dispatch.Forbidden, Text: "expired"}
	}
	return &dispatch.File{Status: 200, Body: io.NopCloser(strings.NewReader(r.URL))}, nil
}

// withFile runs a test in its own time with a broker whose platform passes on files, and a job that has finished.
func withFile(t *testing.T, a dispatch.Access, p *filePlatform, test func(*testing.T, *testBroker, dispatch.JobID)) {
	t.Helper()
	with(t, a, p, func(t *testing.T, h *testBroker) {
		h.Backends[0].ProxyAssets = true
		r := request("a")
		r.Parameters = []byte(`{"tile":1}`)
		j, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if j, err = h.Read(t.Context(), "ann", j.ID, 0); err != nil || j.Status != dispatch.Finished {
			t.Fatalf("%+v, %v", j, err)
		}
		test(t, h, j.ID)
	})
}

// A file is opened by the link that is known, and by a new one when that is refused.
func TestOpenFile_RenewsLinks(t *testing.T) {
	p := &filePlatform{signingPlatform: newSigningPlatform()}
	withFile(t, dispatch.AccessUser, p, func(t *testing.T, b *testBroker, id dispatch.JobID) {
		for range 2 {
			f, err := b.OpenFile(t.Context(), "ann", id, "a", dispatch.FileRequest{})
			if err != nil {
				t.Fatal(err)
			}
			f.Body.Close()
		}
		if p.read() != 1 || len(p.opened) != 2 || p.opened[0] != p.opened[1] {
			t.Errorf("opened %v", p.opened)
		}
		time.Sleep(time.Minute)
		p.opened, p.refuse = nil, 1
		f, err := b.OpenFile(t.Context(), "ann", id, "a", dispatch.FileRequest{})
		if err != nil || p.read() != 1 || len(p.opened) != 2 || p.opened[0] == p.opened[1] {
			t.Fatalf("opened %v, %v", p.opened, err)
		}
		f.Body.Close()
		for _, bad := range []struct {
			user  dispatch.UserID
			asset string
		}{{"other", "a"}, {"ann", "b"}} {
			if _, err := b.OpenFile(t.Context(), bad.user, id, bad.asset, dispatch.FileRequest{}); !dispatch.Is(err,
				dispatch.NotFound) {
				t.Errorf("%v: %v", bad, err)
			}
		}
		if err := b.Delete(t.Context(), "ann", id); err != nil {
			t.Fatal(err)
		}
		if _, err := b.OpenFile(t.Context(), "ann", id, "a", dispatch.FileRequest{}); !dispatch.Is(err,
			dispatch.NotFound) {
			t.Errorf("of a deleted job: %v", err)
		}
	})
}

// A user reads a bounded number of files at once; one that is closed makes room.
func TestOpenFile_OfAUserIsBounded(t *testing.T) {
	withFile(t, dispatch.AccessOpen, &filePlatform{signingPlatform: newSigningPlatform()},
		func(t *testing.T, b *testBroker, id dispatch.JobID) {
			var files []*dispatch.File
			var err error
			for range 100 {
				var f *dispatch.File
				if f, err = b.OpenFile(t.Context(), "ann", id, "a", dispatch.FileRequest{}); err != nil {
					break
				}
				files = append(files, f)
			}
			if !dispatch.Is(err, dispatch.LimitReached) || len(files) != 8 {
				t.Fatalf("%d files, then %v", len(files), err)
			}
			files[0].Body.Close()
			files[0].Body.Close()
			f, err := b.OpenFile(t.Context(), "ann", id, "a", dispatch.FileRequest{})
			if err != nil {
				t.Fatal(err)
			}
			f.Body.Close()
			for _, f := range files {
				f.Body.Close()
			}
		})
}

// Files are opened with the token of the user's own account, and without that of an account that users share.
func TestOpenFile_KeepsTheTokenOfASharedAccount(t *testing.T) {
	for access, sent := range map[dispatch.Access]bool{dispatch.AccessUser: true, dispatch.AccessShared: false} {
		p := &filePlatform{signingPlatform: newSigningPlatform()}
		withFile(t, access, p, func(t *testing.T, b *testBroker, id dispatch.JobID) {
			f, err := b.OpenFile(t.Context(), "ann", id, "a", dispatch.FileRequest{})
			if err != nil || (p.tokens[0] != "") != sent {
				t.Fatalf("%s: %v, with a token: %v", access, err, p.tokens[0] != "")
			}
			f.Body.Close()
		})
	}
}
