package client

import (
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// File is a file to download.
type File struct {
	Href     string
	Path     string // where to store it, see Downloader.Root; its folder is created
	Size     int64  // bytes; 0: not known
	Checksum string // multihash in hexadecimal, as STAC's file:checksum; "": not known
	// Renew returns a new link to the file when the old one has expired. Optional.
	Renew func(context.Context) (href string, err error)
}

// Downloader downloads files. It is safe for concurrent use. The zero value is ready to use.
//
// A file is written to PATH.part and renamed when it is complete and its length and checksum are right. A download that
// broke off, also in an earlier process, continues where it ended if the server says that the file is the same.
type Downloader struct {
	// HTTP sends the requests, without any token of the broker. nil: http.DefaultClient.
	HTTP *http.Client
	// Received is called with the number of bytes of each piece that arrives. It is negative when bytes are discarded.
	// Optional.
	Received func(bytes int64)
	// Root is the folder that the paths of files are relative to. A link in it that leads elsewhere, as others can put
	// it into a shared folder, is an error. nil: paths are any paths, and only links beside the file are not followed
	// elsewhere.
	Root *os.Root
	// Patience is how long a download may bring nothing before it fails. 0: five attempts, some seconds.
	Patience time.Duration
}

const (
	fruitless   = 5               // attempts in a row that bring nothing
	silentFor   = time.Minute     // without any byte ends an attempt
	partSuffix  = ".part"         // of a file that is not complete
	validSuffix = ".part.version" // of the server's name for the version that PATH.part is a piece of
)

// ErrCorrupt is the cause of an error for a file that arrived with another length or checksum than its description
// says.
var ErrCorrupt = errors.New("the file does not have the length or the checksum that its description says")

// Fetch downloads a file. It reports false if the complete file is there already.
func (d *Downloader) Fetch(ctx context.Context, f File) (fetched bool, err error) {
	root := d.Root
	if root == nil {
		folder := filepath.Dir(f.Path)
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return false, err
		}
		if root, err = os.OpenRoot(folder); err != nil {
			return false, err
		}
		defer root.Close()
		f.Path = filepath.Base(f.Path)
	}
	if info, err := root.Stat(f.Path); err == nil && (f.Size == 0 || f.Size == info.Size()) {
		return false, nil
	}
	part, err := openPart(root, f.Path+partSuffix)
	if err != nil {
		return false, err
	}
	defer part.Close() // closed before, unless an error is reported
	t := &transfer{Downloader: d, root: root, file: f, part: part}
	if err := t.run(ctx); err != nil {
		t.tidy()
		return false, err
	}
	if err := errors.Join(part.Close(), root.Rename(f.Path+partSuffix, f.Path)); err != nil {
		return false, err
	}
	_ = root.Remove(f.Path + validSuffix) // at worst a small file stays
	return true, nil
}

// openPart opens a file to write to, and creates it and its folder.
func openPart(root *os.Root, path string) (*os.File, error) {
	const mode = os.O_RDWR | os.O_CREATE
	part, err := root.OpenFile(path, mode, 0o666)
	if !errors.Is(err, os.ErrNotExist) {
		return part, err
	}
	if err := root.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	return root.OpenFile(path, mode, 0o666)
}

// transfer is one download.
type transfer struct {
	*Downloader
	root    *os.Root
	file    File // its path is relative to root
	part    *os.File
	have    int64  // bytes in part
	total   int64  // bytes of the whole file by the last response; -1: not known
	renewed int    // how often the link was renewed since bytes last arrived
	again   bool   // the file was corrupt once and is fetched anew
	version string // the server's name for the version of the file that the part is a piece of; "" if it gave none
}

// tidy removes the files of a download that brought nothing.
func (t *transfer) tidy() {
	if info, err := t.part.Stat(); err != nil || info.Size() > 0 {
		return
	}
	_ = t.part.Close() // nothing was written
	for _, suffix := range []string{partSuffix, validSuffix} {
		_ = t.root.Remove(t.file.Path + suffix) // at worst a small file stays
	}
}

func (t *transfer) run(ctx context.Context) (err error) {
	if t.have, err = t.part.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if t.have > 0 { // of an earlier process
		text, _ := t.root.ReadFile(t.file.Path + validSuffix) // without it the part is fetched anew
		t.version = string(text)
	}
	back := backOff{}
	for without, last := 0, time.Now(); ; {
		before := t.have
		err := t.attempt(ctx)
		if err == nil {
			if err = t.verify(); err == nil {
				return nil
			}
		}
		progressed := t.have > before
		if progressed {
			without, last, t.renewed, back = 0, time.Now(), 0, backOff{}
		}
		without++
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, syscall.ENOSPC):
			return fmt.Errorf("the disk is full: %w. What has arrived is kept; make room and run the command again",
				err)
		case !passing(err), t.Patience == 0 && without >= fruitless, t.Patience > 0 && time.Since(last) > t.Patience:
			return fmt.Errorf("%s: %w", filepath.Base(t.file.Path), err)
		}
		if progressed {
			continue
		}
		if err := back.wait(ctx); err != nil {
			return err
		}
	}
}

// refusedLink is a response that is not the file.
type refusedLink struct {
	status int
	host   string
}

func (e *refusedLink) Error() string {
	return fmt.Sprintf("%s answers the link to the file with %d %s", e.host, e.status, http.StatusText(e.status))
}

// errAgain says that the next attempt will probably succeed.
var errAgain = errors.New("the transfer broke off")

// passing reports whether another attempt can succeed.
func passing(err error) bool {
	if e, ok := errors.AsType[*refusedLink](err); ok && !errors.Is(err, errAgain) {
		return e.status >= 500 || e.status == http.StatusTooManyRequests || e.status == http.StatusRequestTimeout
	}
	_, lost := errors.AsType[*url.Error](err)
	return lost || errors.Is(err, errAgain)
}

// attempt requests what is missing and appends it to the part.
func (t *transfer) attempt(ctx context.Context) error {
	if content, ok := dataOf(t.file.Href); ok {
		return t.unpack(content)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(silentFor, func() {
		cancel(fmt.Errorf("%w: nothing arrived for %v", errAgain, silentFor))
	})
	defer silence.Stop()
	response, err := t.request(ctx)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		if err := t.restart(response); err != nil {
			return err
		}
	case http.StatusPartialContent:
		start, total, ok := rangeOf(response.Header.Get("Content-Range"))
		if !ok || start != t.have || t.differs(response.Header) {
			return t.discard()
		}
		t.total = total
	case http.StatusRequestedRangeNotSatisfiable:
		if _, total, _ := rangeOf(response.Header.Get("Content-Range")); total == t.have && t.have > 0 {
			t.total = total
			return nil
		}
		return t.discard()
	default:
		silence.Stop() // the broker may be slow, or out of reach
		return t.renew(ctx, &refusedLink{response.StatusCode, response.Request.URL.Host})
	}
	if err := t.receive(response.Body, silence); err != nil {
		return causeOf(ctx, err)
	}
	if t.total >= 0 && t.have < t.total && !t.tooLong() {
		return fmt.Errorf("%w after %d of %d bytes", errAgain, t.have, t.total)
	}
	return nil
}

// dataOf returns the part of a data URI (RFC 2397) after its scheme.
func dataOf(href string) (content string, ok bool) {
	const scheme = "data:"
	if len(href) < len(scheme) || !strings.EqualFold(href[:len(scheme)], scheme) {
		return "", false
	}
	return href[len(scheme):], true
}

// unpack writes the content of a data URI to the part. It is not longer than the URI, which is in memory.
func (t *transfer) unpack(content string) error {
	media, text, ok := strings.Cut(content, ",")
	plain, err := url.PathUnescape(text)
	if !ok || err != nil {
		return errBadData
	}
	file := []byte(plain)
	if strings.HasSuffix(strings.ToLower(media), ";base64") {
		plain = strings.TrimRight(strings.Join(strings.Fields(plain), ""), "=")
		if file, err = base64.RawStdEncoding.DecodeString(plain); err != nil {
			return errBadData
		}
	}
	if err := t.empty(); err != nil {
		return err
	}
	if _, err := t.part.WriteAt(file, 0); err != nil {
		return err
	}
	t.have = int64(len(file))
	t.count(t.have)
	return nil
}

var errBadData = errors.New("the link to the file is a data address that cannot be decoded")

// causeOf returns why ctx was canceled, if it was, and else err.
func causeOf(ctx context.Context, err error) error { return cmp.Or(context.Cause(ctx), err) }

func (t *transfer) request(ctx context.Context) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.file.Href, nil)
	if err != nil {
		return nil, errors.New("the link to the file is not a URL")
	}
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return nil, fmt.Errorf("the link to the file is a %q address, which cannot be downloaded", r.URL.Scheme)
	}
	r.Header.Set("Accept-Encoding", "identity") // ranges of a compressed file are of no use
	if t.version == "" {
		if err := t.empty(); err != nil { // nothing says that the rest would be of the same file
			return nil, err
		}
	}
	if t.have > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", t.have))
		r.Header.Set("If-Range", t.version)
	}
	response, err := cmp.Or(t.HTTP, http.DefaultClient).Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		e.URL = r.URL.Host // a signed link is a secret
	}
	return response, err
}

// restart begins anew with a response that is the whole file.
func (t *transfer) restart(response *http.Response) error {
	if err := errors.Join(t.empty(), t.root.RemoveAll(t.file.Path+validSuffix)); err != nil {
		return err
	}
	t.total = response.ContentLength
	t.version = response.Header.Get("ETag")
	if t.version == "" || strings.HasPrefix(t.version, "W/") {
		t.version = response.Header.Get("Last-Modified")
	}
	if t.version == "" {
		return nil
	}
	return t.root.WriteFile(t.file.Path+validSuffix, []byte(t.version), 0o666)
}

// differs reports whether a header names another version than that of the part, as of a server that ignores If-Range.
func (t *transfer) differs(h http.Header) bool {
	now := strings.TrimPrefix(h.Get("ETag"), "W/")
	if _, err := http.ParseTime(t.version); err == nil {
		now = h.Get("Last-Modified")
	}
	return now != "" && now != t.version
}

func (t *transfer) empty() error {
	if t.have == 0 {
		return nil
	}
	t.count(-t.have)
	t.have, t.version = 0, ""
	return errors.Join(t.part.Truncate(0), t.root.RemoveAll(t.file.Path+validSuffix))
}

// discard drops the part, to begin anew.
func (t *transfer) discard() error {
	if err := t.empty(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the server sent another part of the file than requested", errAgain)
}

// renew gets a new link if the refusal may mean that the old one has expired.
func (t *transfer) renew(ctx context.Context, refusal *refusedLink) error {
	expired := refusal.status == http.StatusUnauthorized || refusal.status == http.StatusForbidden ||
		refusal.status == http.StatusNotFound ||
		refusal.status == http.StatusGone || refusal.status == http.StatusBadRequest
	if !expired || t.file.Renew == nil || t.renewed >= 2 {
		return refusal
	}
	t.renewed++
	href, err := t.file.Renew(ctx)
	if err != nil {
		return fmt.Errorf("%w, and no new link is to be had: %w", refusal, err)
	}
	t.file.Href = href
	return fmt.Errorf("%w: %w", errAgain, refusal)
}

const piece = 128 << 10 // bytes

// receive appends a body to the part. silence is put off by each piece.
func (t *transfer) receive(body io.Reader, silence *time.Timer) error {
	buffer := make([]byte, piece)
	for {
		n, err := body.Read(buffer)
		silence.Reset(silentFor)
		if n > 0 {
			if _, err := t.part.WriteAt(buffer[:n], t.have); err != nil {
				return err
			}
			t.have += int64(n)
			t.count(int64(n))
		}
		if t.tooLong() {
			return nil
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errAgain, err)
		}
	}
}

// tooLong reports whether more has arrived than the file has: the rest, which may have no end, is not received, and
// verify refuses it.
func (t *transfer) tooLong() bool { return t.file.Size > 0 && t.have > t.file.Size }

func (t *transfer) count(n int64) {
	if t.Received != nil {
		t.Received(n)
	}
}

// verify checks the length and the checksum of the complete file. A corrupt file is fetched anew once.
func (t *transfer) verify() error {
	right, err := t.valid()
	if right || err != nil {
		return err
	}
	if err := t.empty(); err != nil {
		return err
	}
	if t.again {
		return ErrCorrupt
	}
	t.again = true
	return fmt.Errorf("%w: %w", errAgain, ErrCorrupt)
}

func (t *transfer) valid() (bool, error) {
	if t.file.Size > 0 && t.have != t.file.Size {
		return false, nil
	}
	made, want := digest(t.file.Checksum)
	if made == nil {
		return true, nil
	}
	if _, err := io.Copy(made, io.NewSectionReader(t.part, 0, t.have)); err != nil {
		return false, err
	}
	return strings.EqualFold(hex.EncodeToString(made.Sum(nil)), want), nil
}

// digest returns the hash of a multihash (https://multiformats.io/multihash/) and its value in hexadecimal; nil for an
// unknown one.
func digest(multihash string) (hash.Hash, string) {
	for prefix, made := range map[string]func() hash.Hash{"1220": sha256.New, "1340": sha512.New, "1114": sha1.New,
		"d50110": md5.New} {
		if rest, ok := strings.CutPrefix(strings.ToLower(multihash), prefix); ok {
			h := made()
			if len(rest) == 2*h.Size() {
				return h, rest
			}
		}
	}
	return nil, ""
}

// rangeOf reads a header Content-Range. total is -1 if it is not known.
func rangeOf(header string) (start, total int64, ok bool) {
	unit, size, ok := strings.Cut(header, "/")
	first, found := strings.CutPrefix(unit, "bytes ")
	if !ok || !found {
		return 0, -1, false
	}
	total, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		total = -1
	}
	from, _, _ := strings.Cut(first, "-")
	start, err = strconv.ParseInt(from, 10, 64)
	return start, total, err == nil
}
