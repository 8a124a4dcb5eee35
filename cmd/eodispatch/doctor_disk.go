package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/eodispatch/eodispatch/config"
)

const (
	leastFree      = 1 << 30 // bytes that the disk of an SQLite file should have free
	leastFreeShare = 20      // on a small disk, one part of so many
)

// diskChecks is the check that the disk of an SQLite file has space; none for PostgreSQL, whose disk is elsewhere.
func diskChecks(settings *config.Config) []check {
	file, sqlite := strings.CutPrefix(settings.Database.Reveal(), "sqlite:")
	if !sqlite || strings.Contains(file, ":memory:") {
		return nil
	}
	folder := filepath.Dir(file)
	return []check{{name: "disk of the database", advice: "free space, or move the file to another disk; work goes " +
		"on without a restart", ask: withoutUnproven(func(context.Context) error { return lowOn(diskSpace(folder)) })}}
}

// lowOn returns an error if a disk is almost full.
func lowOn(all, free uint64) error {
	if free >= min(leastFree, all/leastFreeShare) {
		return nil
	}
	return fmt.Errorf("%d of %d MiB are free; when it is full, requests get 503", free>>20, all>>20)
}
