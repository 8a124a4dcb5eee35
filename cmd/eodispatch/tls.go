package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/config"
)

// certificate is the server's TLS certificate. It is read again when its files change, so a renewal needs no restart.
type certificate struct {
	files config.TLS
	log   *slog.Logger

	mu     sync.Mutex
	stamps [2]fileVersion // of the files read last, usable or not
	loaded *tls.Certificate
}

// fileVersion identifies one version of a file.
type fileVersion struct {
	changed time.Time
	size    int64
}

// newCertificate reads the files and fails if they cannot be used.
func newCertificate(files config.TLS, log *slog.Logger) (*certificate, error) {
	c := &certificate{files: files, log: log}
	stamps, err := c.reloadIfChanged()
	if err != nil {
		return nil, err
	}
	return c, c.load(stamps)
}

// config returns a server configuration without HTTP/2, because WebSockets need HTTP/1.1.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.current}
}

// current returns the newest usable certificate. If the files have become unusable, the last usable certificate stays
// in use.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamps, err := c.reloadIfChanged()
	if err == nil && stamps != c.stamps {
		if err = c.load(stamps); err == nil {
			c.log.Info("TLS certificate reloaded")
		} else {
			c.log.Error("reloading the TLS certificate failed; the previous one stays in use", "error", err)
		}
	}
	return c.loaded, nil
}

func (c *certificate) reloadIfChanged() (stamps [2]fileVersion, err error) {
	for i, file := range []string{c.files.CertFile, c.files.KeyFile} {
		info, err := os.Stat(file)
		if err != nil {
			return stamps, fmt.Errorf("tls: %w", err)
		}
		stamps[i] = fileVersion{info.ModTime(), info.Size()}
	}
	return stamps, nil
}

func (c *certificate) load(stamps [2]fileVersion) error {
	c.stamps = stamps
	pair, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	c.loaded = &pair
	return nil
}
