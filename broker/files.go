package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// filesOfUser is the number of files that are passed on to a user at once.
const filesOfUser = 8

// OpenFile opens the file of an asset of a finished job's results, for its owner. The file is not read beforehand, and
// its Body must be closed. NotFound if there is no such file. LimitReached if the user reads too many files. A file
// whose link has expired is asked for by a new link.
func (b *Broker) OpenFile(ctx context.Context, u dispatch.UserID, id dispatch.JobID, asset string,
	r dispatch.FileRequest) (*dispatch.File, error) {
	return b.openOwn(ctx, u, id, func(j dispatch.Record) (*dispatch.File, error) {
		return b.openFile(ctx, u, j, asset, r)
	})
}

// openOwn opens a file of a finished job for its owner, and counts it among those that the owner reads.
func (b *Broker) openOwn(ctx context.Context, u dispatch.UserID, id dispatch.JobID,
	open func(dispatch.Record) (*dispatch.File, error)) (*dispatch.File, error) {
	j, err := b.Records.Record(ctx, u, id)
	if err != nil {
		return nil, err
	}
	if j.Status != dispatch.Finished {
		return nil, noFile()
	}
	defer idle(ctx)()
	release, err := b.limits.acquire(ctx, "files of "+string(u), filesOfUser)
	if err != nil {
		return nil, &dispatch.Error{Kind: dispatch.LimitReached, Op: "dispatch.OpenFile", RetryAfter: comeBackSoon,
			Text: fmt.Sprintf("You are reading %d files through this service. Wait until one of them has been read.",
				filesOfUser)}
	}
	file, err := open(j)
	if err != nil {
		release()
		return nil, err
	}
	file.Body = &fileBody{file.Body, release}
	return file, nil
}

// openFile opens the file by the link that is known, and if that is refused by a new one.
func (b *Broker) openFile(ctx context.Context, u dispatch.UserID, j dispatch.Record, asset string,
	r dispatch.FileRequest) (*dispatch.File, error) {
	known, err := b.kept(ctx, u, j.ID)
	if err != nil {
		return nil, err
	}
	if known.Fresh(time.Now()) {
		file, err := b.follow(ctx, j, hrefOf(known.Body, asset), r)
		if err == nil || !dispatch.Is(err, dispatch.NotFound) && !dispatch.Is(err, dispatch.Forbidden) {
			return file, err
		}
	}
	results, err := b.collection(ctx, u, j)
	if err != nil {
		return nil, err
	}
	return b.follow(ctx, j, hrefOf(results, asset), r)
}

func (b *Broker) follow(ctx context.Context, j dispatch.Record, link string, r dispatch.FileRequest) (*dispatch.File,
	error) {
	backend := b.BackendNamed(j.Account.Platform())
	if backend == nil || !backend.ProxyAssets {
		return nil, noFile()
	}
	opener, can := backend.Platform.(dispatch.FileOpener)
	if r.URL = link; !can || r.URL == "" {
		return nil, noFile()
	}
	open := func(ctx context.Context, t dispatch.Token) (file *dispatch.File, err error) {
		defer dispatch.RecoverAsError(ctx, b.Log, "dispatch.OpenFile", &err)
		return opener.OpenFile(ctx, t, r)
	}
	if backend.Access == dispatch.AccessUser {
		return withToken(ctx, b, backend, j.Account, open)
	}
	// A user may have made the link: a process may return what it was given. With the token of a shared account it
	// could lead to what is another user's.
	if err := b.AwaitSendTime(ctx, backend, j.Account); err != nil {
		return nil, err
	}
	return open(ctx, dispatch.Token{})
}

func noFile() error {
	return &dispatch.Error{Kind: dispatch.NotFound, Op: "dispatch.OpenFile",
		Text: "There is no such file. Request the results again."}
}

// hrefOf returns the link of an asset of results; "" if there is none.
func hrefOf(results json.RawMessage, asset string) string {
	var c struct {
		Assets map[string]struct {
			Href string `json:"href"`
		} `json:"assets"`
	}
	if json.Unmarshal(results, &c) != nil {
		return ""
	}
	return c.Assets[asset].Href
}

// fileBody counts a file until it is closed.
type fileBody struct {
	io.ReadCloser
	release func()
}

func (f *fileBody) Close() error {
	f.release()
	return f.ReadCloser.Close()
}
