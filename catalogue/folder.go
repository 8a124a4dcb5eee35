package catalogue

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// readFolder reads the JSON files of a folder and the folders below it, but not what has a name that begins with a dot.
// Links to files are followed, links to folders are not. With an error, the documents are those that were read until
// then.
func readFolder(folder string, now time.Time) (found []dispatch.SourceDocument, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var bytes int64
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(path.Base(name), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || path.Ext(name) != ".json":
			return nil
		}
		d := readFile(root, name, now)
		bytes += int64(len(d.Text))
		if err := cmp.Or(bounds.CatalogueDocuments.Check(int64(len(found)+1)),
			bounds.CatalogueBytes.Check(bytes)); err != nil {
			return err
		}
		found = append(found, d)
		return nil
	})
	return found, err
}

func readFile(root *os.Root, name string, now time.Time) dispatch.SourceDocument {
	d := dispatch.SourceDocument{Address: name, Read: now}
	file, err := root.Open(name)
	if err != nil {
		d.Failure = err.Error()
		return d
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, bounds.CatalogueDocument.Most+1))
	if err == nil {
		err = bounds.CatalogueDocument.Check(int64(len(text)))
	}
	switch {
	case err != nil:
		d.Failure = err.Error()
	case !isJSON(text):
		d.Failure = "it is not JSON in UTF-8"
	default:
		d.Text = string(text)
	}
	return d
}
