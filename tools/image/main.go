// Command image writes an OCI image of programs into a folder, as an OCI image layout: without a base image, a daemon
// or a registry, as the program brings certificates and time zones. The same programs give the same bytes. The name of
// each ends with its architecture, and beside it lies PROGRAM.cdx.json, which describes what it contains.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing/fstest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user and the group that the program runs as; they need no name.
const user = 65532

func main() {
	folder := flag.String("out", "", "folder of the image, which is empty or absent")
	version := flag.String("version", "unknown", "version of the programs")
	revision := flag.String("revision", "", "commit that they are built from")
	created := flag.Int64("created", 0, "time of that commit, in seconds since 1970")
	flag.Parse()
	labels := map[string]string{"org.opencontainers.image.title": "eodispatch",
		"org.opencontainers.image.description": "A broker for Earth-observation jobs",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     *version, "org.opencontainers.image.revision": *revision}
	if err := write(*folder, flag.Args(), v1.Time{Time: time.Unix(*created, 0).UTC()}, labels); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write writes a layout with one index of the images of all programs, which has the version as its name.
func write(folder string, programs []string, created v1.Time, labels map[string]string) error {
	var images []mutate.IndexAddendum
	for _, program := range programs {
		image, platform, err := imageOf(program, created, labels)
		if err != nil {
			return err
		}
		images = append(images, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(mutate.AppendManifests(empty.Index, images...), layout.WithAnnotations(
		map[string]string{"org.opencontainers.image.ref.name": labels["org.opencontainers.image.version"]}))
}

func imageOf(program string, created v1.Time, labels map[string]string) (v1.Image, *v1.Platform, error) {
	files, err := archive(program, created.Time)
	if err != nil {
		return nil, nil, err
	}
	opened := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }
	layer, err := tarball.LayerFromOpener(opened, tarball.WithCompressionLevel(gzip.DefaultCompression),
		tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, nil, err
	}
	platform := &v1.Platform{OS: "linux", Architecture: program[strings.LastIndex(program, "-")+1:]}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), &v1.ConfigFile{Architecture: platform.Architecture, OS: platform.OS, Created: created,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%[1]d", user), WorkingDir: "/data", Entrypoint: []string{"/eodispatch"},
			Cmd: []string{"serve"}, Env: []string{"EODISPATCH_DEFAULT_LISTEN=0.0.0.0:8080", "PATH=/"},
			ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Labels: labels,
			Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/eodispatch", "health"}, Interval: 10 * time.Second,
				Timeout: 5 * time.Second, StartPeriod: time.Minute, Retries: 3},
		}})
	if err != nil {
		return nil, nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: created}})
	if err != nil {
		return nil, nil, err
	}
	return mutate.Annotations(image, labels).(v1.Image), platform, nil
}

// archive returns the files of the image: the program, also by the name alembic (see cmd/eodispatch/alembic.go), what
// it contains, and the folder of an SQLite database.
func archive(program string, created time.Time) ([]byte, error) {
	text, unread := os.ReadFile(program)
	contents, err := os.ReadFile(program + ".cdx.json")
	if err = errors.Join(unread, err); err != nil {
		return nil, err
	}
	files := fstest.MapFS{
		"alembic":       {Mode: fs.ModeSymlink | 0o777, Data: []byte("eodispatch")},
		"data":          {Mode: fs.ModeDir | 0o700, Sys: &tar.Header{Uid: user, Gid: user}},
		"eodispatch":    {Mode: 0o755, Data: text},
		"sbom.cdx.json": {Mode: 0o644, Data: contents},
		"tmp":           {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	for _, f := range files {
		f.ModTime = created
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err = errors.Join(w.AddFS(files), w.Close())
	return out.Bytes(), err
}
