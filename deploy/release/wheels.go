package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// wheelTags are the platforms of wheels with the program, as pip names them. A static program needs no C library, so
// its wheel is for those with glibc and with musl. What Go compiles for macOS needs version 12.
var wheelTags = map[string][]string{
	"linux/amd64":   {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"},
	"linux/arm64":   {"manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"},
	"darwin/amd64":  {"macosx_12_0_x86_64"},
	"darwin/arm64":  {"macosx_12_0_arm64"},
	"windows/amd64": {"win_amd64"},
}

// checkPackage refuses a version that the Python package does not have.
func checkPackage(project []byte, version string) error {
	version = strings.TrimPrefix(version, "v")
	if version != "Unreleased" && !bytes.Contains(project, []byte("\nversion = \""+version+"\"\n")) {
		return fmt.Errorf("python/pyproject.toml has another version than %s: name the version there first", version)
	}
	return nil
}

// packages builds the Python package: as sources, as a wheel without the program for every system, and for each system
// as a wheel with the program, which pip prefers there.
func (r release) packages() error {
	folder, err := filepath.Abs(r.folder)
	if err != nil {
		return err
	}
	// the umask would be part of the sources
	build := "umask 022 && cd python && exec \"$0\" -m hatchling build -d \"$1\""
	if err := r.command([]string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.created.Unix(), 10)}, "sh", "-c", build,
		r.python, folder); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(folder, "*-py3-none-any.whl"))
	if err != nil || len(found) != 1 {
		return errors.Join(err, fmt.Errorf("hatchling built %d wheels", len(found)))
	}
	for _, target := range r.targets {
		if err := writeWheel(found[0], r.file(target), wheelTags[target], r.created); err != nil {
			return err
		}
	}
	return nil
}

// writeWheel writes a wheel with the files of a plain one and a program, which pip puts beside Python.
func writeWheel(plain, program string, tags []string, created time.Time) error {
	if len(tags) == 0 {
		return fmt.Errorf("%s: pip has no name for its system", program)
	}
	source, err := zip.OpenReader(plain)
	if err != nil {
		return err
	}
	defer source.Close()
	name := strings.TrimSuffix(filepath.Base(plain), "-py3-none-any.whl")
	file, err := os.Create(filepath.Join(filepath.Dir(plain), name+"-py3-none-"+strings.Join(tags, ".")+".whl"))
	if err != nil {
		return err
	}
	w := &wheel{zip: zip.NewWriter(file), name: name, created: created}
	err = w.copy(source.File, tags)
	if err == nil {
		err = w.addProgram(program)
	}
	if err == nil {
		err = w.finish()
	}
	return errors.Join(err, file.Close())
}

// wheel is a wheel that is being written, https://packaging.python.org/specifications/binary-distribution-format
type wheel struct {
	zip     *zip.Writer
	name    string // with the version
	created time.Time
	record  strings.Builder
}

// copy adds the files of a plain wheel. The file WHEEL names the systems.
func (w *wheel) copy(files []*zip.File, tags []string) error {
	for _, f := range files {
		text, err := contentOf(f)
		if err != nil {
			return err
		}
		switch f.Name {
		case w.name + ".dist-info/RECORD": // finish writes it
			continue
		case w.name + ".dist-info/WHEEL":
			lines := "Tag: py3-none-" + strings.Join(tags, "\nTag: py3-none-")
			text = bytes.Replace(text, []byte("Tag: py3-none-any"), []byte(lines), 1)
			text = bytes.Replace(text, []byte("Root-Is-Purelib: true"), []byte("Root-Is-Purelib: false"), 1)
		}
		if err := w.add(f.Name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func contentOf(f *zip.File) ([]byte, error) {
	opened, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return io.ReadAll(opened)
}

// addProgram adds the program as a script, which Python's tools install into the folder of programs.
func (w *wheel) addProgram(program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	name := "eodispatch"
	if strings.HasSuffix(program, ".exe") {
		name += ".exe"
	}
	return w.add(w.name+".data/scripts/"+name, text, 0o755)
}

// add adds a file, and its hash to the record.
func (w *wheel) add(name string, text []byte, mode os.FileMode) error {
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: w.created}
	header.SetMode(mode)
	entry, err := w.zip.CreateHeader(header)
	if err != nil {
		return err
	}
	if _, err := entry.Write(text); err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	_, err = fmt.Fprintf(&w.record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	return err
}

// finish adds the record of all files.
func (w *wheel) finish() error {
	name := w.name + ".dist-info/RECORD"
	text := w.record.String() + name + ",,\n"
	return errors.Join(w.add(name, []byte(text), 0o644), w.zip.Close())
}
