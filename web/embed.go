// Package web embeds the page that people use the service with. Its sources are in src; Vite builds them into dist,
// which is not committed.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var embedded embed.FS

// Page returns the page as it was built before the program: index.html, and the files that it loads below page/. It
// returns nil if the page had not been built.
func Page() fs.FS {
	dist, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	if _, err := fs.Stat(dist, "index.html"); err != nil {
		return nil
	}
	return dist
}
