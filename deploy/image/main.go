// Command image writes an OCI image of the program into a folder, as an OCI image layout: without a base image, a
// daemon or a registry. The same commit gives the same bytes. The image holds the program alone, which contains
// certificates and time zones.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/deploy/sbom"
)

func main() {
	version := flag.String("version", "unknown", "version of the program")
	revision := flag.String("revision", "", "commit that is built")
	created := flag.String("created", "0", "time of that commit, in seconds since 1970")
	folder := flag.String("out", "dist/image", "folder of the image; a previous image in it is replaced")
	architectures := flag.String("architectures", "amd64,arm64", "for which to build")
	flag.Parse()
	seconds, err := strconv.ParseInt(*created, 10, 64)
	if err == nil {
		err = build(*folder, *version, *revision, time.Unix(seconds, 0).UTC(), strings.Split(*architectures, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// build compiles the program for each architecture and writes the image.
func build(folder, version, revision string, created time.Time, architectures []string) error {
	binaries, err := os.MkdirTemp("", "eodispatch-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaries)
	var images []image
	for _, architecture := range architectures {
		program := filepath.Join(binaries, architecture)
		if err := compile(program, version, architecture); err != nil {
			return err
		}
		contents, err := sbom.Of(program, version, lockOfPage(), created)
		if err != nil {
			return err
		}
		images = append(images, image{architecture, program, contents, created, labels(version, revision)})
	}
	return write(folder, version, images)
}

// lockOfPage returns the file that lists the packages of the page; "" if the program is built without it.
func lockOfPage() string {
	if _, err := os.Stat("web/dist/index.html"); err != nil {
		return ""
	}
	return "web/package-lock.json"
}

// write writes images of one version.
func write(folder, version string, images []image) error {
	l, err := newLayout(folder)
	if err != nil {
		return err
	}
	var added []descriptor
	for _, i := range images {
		d, err := l.add(i)
		if err != nil {
			return err
		}
		added = append(added, d)
	}
	return l.finish(version, added)
}

func labels(version, revision string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "eodispatch",
		"org.opencontainers.image.description": "A broker for Earth-observation jobs",
		"org.opencontainers.image.licenses":    "Apache-2.0", "org.opencontainers.image.version": version,
		"org.opencontainers.image.revision": revision,
	}
}

// compile builds the program as make build does, without anything of this machine in it.
func compile(program, version, architecture string) error {
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+
		version, "-o", program, "./cmd/eodispatch")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	c.Stderr = os.Stderr
	return c.Run()
}
