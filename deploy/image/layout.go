package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Media types of the OCI image specification, https://github.com/opencontainers/image-spec
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// user is the user and the group that the program runs as; they need no name.
const user = 65532

// descriptor refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type imageConfig struct {
	platform
	Created string        `json:"created"`
	Config  runtimeConfig `json:"config"`
	RootFS  rootFS        `json:"rootfs"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type runtimeConfig struct {
	User         string              `json:"User"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	WorkingDir   string              `json:"WorkingDir"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Labels       map[string]string   `json:"Labels"`
	Healthcheck  healthcheck         `json:"Healthcheck"` // not in the specification; Docker reads it
}

type healthcheck struct {
	Test              []string
	Interval, Timeout time.Duration
	StartPeriod       time.Duration
	Retries           int
}

// layout is an OCI image layout in a folder.
type layout struct{ folder string }

// newLayout begins an empty layout; a previous one in the folder is replaced.
func newLayout(folder string) (layout, error) {
	if err := os.RemoveAll(folder); err != nil {
		return layout{}, err
	}
	if err := os.MkdirAll(filepath.Join(folder, "blobs", "sha256"), 0o755); err != nil {
		return layout{}, err
	}
	return layout{folder}, os.WriteFile(filepath.Join(folder, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`),
		0o644)
}

func digestOf(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (l layout) put(mediaType string, blob []byte) (descriptor, error) {
	digest := digestOf(blob)
	d := descriptor{MediaType: mediaType, Digest: digest, Size: int64(len(blob))}
	return d, os.WriteFile(filepath.Join(l.folder, "blobs", "sha256", digest[len("sha256:"):]), blob, 0o644)
}

func (l layout) putJSON(mediaType string, value any) (descriptor, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return l.put(mediaType, text)
}

// image is what an image is made of.
type image struct {
	architecture string
	program      string // path of the binary
	sbom         []byte // what it contains, see package sbom; nil: not described
	created      time.Time
	labels       map[string]string
}

// add adds the image of one architecture.
func (l layout) add(i image) (descriptor, error) {
	files, err := archive(i.program, i.sbom, i.created)
	if err != nil {
		return descriptor{}, err
	}
	packed, err := compress(files)
	if err != nil {
		return descriptor{}, err
	}
	layer, err := l.put(typeLayer, packed)
	if err != nil {
		return descriptor{}, err
	}
	on := platform{Architecture: i.architecture, OS: "linux"}
	config, err := l.putJSON(typeConfig, imageConfig{on, i.created.Format(time.RFC3339), i.config(),
		rootFS{"layers", []string{digestOf(files)}}})
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.putJSON(typeManifest, manifest{2, typeManifest, config, []descriptor{layer}, i.labels})
	d.Platform = &on
	return d, err
}

func (i image) config() runtimeConfig {
	return runtimeConfig{
		User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/data", Entrypoint: []string{"/eodispatch"},
		Cmd:          []string{"serve"},
		Env:          []string{"EODISPATCH_DEFAULT_LISTEN=0.0.0.0:8080", "PATH=/"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Labels: i.labels,
		Healthcheck: healthcheck{Test: []string{"CMD", "/eodispatch", "health"}, Interval: 10 * time.Second,
			Timeout: 5 * time.Second, StartPeriod: time.Minute, Retries: 3},
	}
}

// entry is a file of the image.
type entry struct {
	header tar.Header
	text   []byte
}

// archive returns the files of the image: the program, also by the name alembic, what it contains, and the folder of an
// SQLite database.
func archive(program string, contents []byte, created time.Time) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	entries := []entry{
		// see cmd/eodispatch/alembic.go
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "alembic", Linkname: "eodispatch", Mode: 0o777}, nil},
		{tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o700, Uid: user, Gid: user}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "eodispatch", Mode: 0o755, Size: int64(len(text))}, text},
		{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil},
	}
	if contents != nil {
		entries = append(entries, entry{tar.Header{Typeflag: tar.TypeReg, Name: "sbom.cdx.json", Mode: 0o644,
			Size: int64(len(contents))}, contents})
	}
	for _, e := range entries {
		e.header.ModTime, e.header.Format = created, tar.FormatPAX
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}

// compress compresses without a name and a time, so that the same files give the same bytes.
func compress(files []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(files); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// finish writes the index of all images under the name.
func (l layout) finish(name string, images []descriptor) error {
	all, err := l.putJSON(typeIndex, index{2, typeIndex, images})
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": name}
	text, err := json.Marshal(index{2, typeIndex, []descriptor{all}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.folder, "index.json"), text, 0o644)
}
