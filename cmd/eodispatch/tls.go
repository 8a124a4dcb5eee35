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

// certificate is the broker's own for TLS. It is read again when its files change, so that a renewal needs no restart.
type certificate struct {
	files config.TLS
	log   *slog.Logger

	mu     sync.Mutex
	stamps [2]stamp // of the files that were read last, usable or not
	loaded *tls.Certificate
}

// stamp tells one content of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

// newCertificate fails when the files cannot be used.
func newCertificate(files config.TLS, log *slog.Logger) (*certificate, error) {
	c := &certificate{files: files, log: log}
	stamps, err := c.look()
	if err != nil {
		return nil, err
	}
	return c, c.load(stamps)
}

// config is for a server. It has no HTTP/2, because WebSockets need HTTP/1.1.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.current}
}

// current gives the newest usable certificate. Files that cannot be used leave the one before in place.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamps, err := c.look()
	if err == nil && stamps != c.stamps {
		if err = c.load(stamps); err == nil {
			c.log.Info("the TLS certificate was read again")
		} else {
			c.log.Error("the TLS certificate has changed and cannot be used; the one before stays in use", "error", err)
		}
	}
	return c.loaded, nil
}

func (c *certificate) look() (stamps [2]stamp, err error) {
	for i, file := range []string{c.files.CertFile, c.files.KeyFile} {
		info, err := os.Stat(file)
		if err != nil {
			return stamps, fmt.Errorf("tls: %w", err)
		}
		stamps[i] = stamp{info.ModTime(), info.Size()}
	}
	return stamps, nil
}

func (c *certificate) load(stamps [2]stamp) error {
	c.stamps = stamps
	pair, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	c.loaded = &pair
	return nil
}
