package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// manuals writes the manual pages of all commands into an archive, which is unpacked in /usr/local/share.
func (r release) manuals() (err error) {
	folder, err := os.MkdirTemp("", "manuals")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := r.command([]string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.created.Unix(), 10)},
		"go", "run", "-trimpath", "./cmd/eodispatch", "reference", "man", "--to", folder); err != nil {
		return err
	}
	pages, err := os.ReadDir(folder) // in order
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.folder, "eodispatch-"+r.version+"-man.tar.gz"))
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(file)
	archive := tar.NewWriter(packed)
	defer func() { err = errors.Join(err, archive.Close(), packed.Close(), file.Close()) }()
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(folder, page.Name()))
		if err != nil {
			return err
		}
		header := &tar.Header{Name: "man/man1/" + page.Name(), Mode: 0o644, Size: int64(len(text)), ModTime: r.created}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(text); err != nil {
			return err
		}
	}
	return nil
}
