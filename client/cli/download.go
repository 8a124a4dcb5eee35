package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

func (a *app) resultsCommand() *cobra.Command {
	show := a.showAssets
	links := false
	command := &cobra.Command{Use: "results ID", GroupID: "results", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "List the files of a job or task, with links to download them",
		Long: "List the files of a job or task, with links to download them, which may expire. --json prints STAC: " +
			"the Collection of a job, or the Items of a task.\n\n" +
			"The exit code is 1 if results of finished jobs cannot be read; these jobs are named.\n\n" + idHelp,
		Example: "  eodispatch results job-42\n  eodispatch results task-7 --json\n" +
			"  eodispatch results task-7 --links | wget -i -",
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			if links {
				show, a.json = a.showLinks, false
			}
			if !t.task {
				found, err := resultsOf(ctx, c, t.id)
				switch {
				case err != nil:
					return err
				case a.json:
					return a.print(found.Raw)
				}
				show(found.Assets)
				return nil
			}
			var missing missingJobs
			for i, err := range c.TaskItems(ctx, t.id) {
				if missing.add(err) {
					continue
				}
				if err != nil {
					return err
				}
				if a.json {
					if err := a.print(i.Raw); err != nil {
						return err
					}
					continue
				}
				show(i.Assets)
			}
			return missing.err()
		})}
	command.Flags().BoolVar(&links, "links", false, "print the links alone, one in each line")
	return command
}

// missingJobs are finished jobs of a task whose results cannot be read.
type missingJobs []*wire.MissingResults

// add adds the job of an error, and reports whether it has one.
func (m *missingJobs) add(err error) bool {
	job, missing := errors.AsType[*wire.MissingResults](err)
	if missing {
		*m = append(*m, job)
	}
	return missing
}

// err returns the error that names the jobs; nil if there are none.
func (m missingJobs) err() error {
	const shown = 20
	if len(m) == 0 {
		return nil
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, "results are missing for %d of the finished jobs:", len(m))
	for _, job := range m[:min(shown, len(m))] {
		fmt.Fprintf(text, "\n%v", job)
	}
	if len(m) > shown {
		fmt.Fprintf(text, "\nand %d more", len(m)-shown)
	}
	if slices.ContainsFunc(m, func(job *wire.MissingResults) bool { return job.Temporary }) {
		text.WriteString("\nSome may become available. Run the command again later to try only those.")
	}
	return errors.New(text.String())
}

func resultsOf(ctx context.Context, c *client.Client, job int64) (*wire.Collection, error) {
	found, err := c.Results(ctx, job)
	if err == nil && found == nil {
		err = &exitError{ExitRunning, fmt.Errorf("%s has no results yet; wait for its end: eodispatch wait %s",
			target{false, job}, target{false, job})}
	}
	return found, err
}

func (a *app) showAssets(assets map[string]wire.Asset) {
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		fmt.Fprintf(a.Out, "%s\t%s\t%s\n", oneLine(name, 100), oneLine(assets[name].Type, 60),
			printable(assets[name].Href))
	}
}

func (a *app) showLinks(assets map[string]wire.Asset) {
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		fmt.Fprintln(a.Out, printable(assets[name].Href))
	}
}

func (a *app) downloadCommand() *cobra.Command {
	to, follow := saving{}, false
	command := &cobra.Command{Use: "download ID", GroupID: "results", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTargets,
		Short:             "Download the results of a job or task",
		Long: `Download the results of a job or task, four files at once. Existing files are skipped, and interrupted downloads
continue. The folder gets a collection.json, a STAC Collection that refers to the files. The files of a task are in a
folder for each job, or as --layout names them with the Items in the folder items. items.json has all Items of a task as
GeoJSON, for QGIS and GeoPandas.

` + idHelp + `

The exit code is 8 if the job or task has not ended; the results of finished jobs of a task are downloaded. It is 1 if
files could not be downloaded, or results of finished jobs cannot be read: these are named, and all others are
downloaded.`,
		Example: "  eodispatch download job-42\n  eodispatch download task-7 -o results --follow\n" +
			"  eodispatch download task-7 -o results --layout '{time}/{name}.{extension}' --vrt",
		RunE: a.onTarget(func(ctx context.Context, c *client.Client, t target) error {
			if follow {
				return a.downloadWhileRunning(ctx, c, t, to)
			}
			// before the folder is made, and before the listing, so that no result between the two is missed
			running := ended(ctx, c, t)
			if running != nil && (!t.task || ExitCode(running) != ExitRunning) {
				return running
			}
			d, err := a.downloads(c, t, to)
			if err != nil {
				return err
			}
			defer d.close()
			return d.report(cmp.Or(d.fetchAll(ctx), running))
		})}
	to.flags(command, "to", "`FOLDER`, created if necessary; default: the id, such as task-7")
	command.Flags().BoolVar(&follow, "follow", false, "continue until the job or task has ended")
	return command
}

// saving says where results are downloaded to, and what is made of them.
type saving struct {
	folder string
	names  string // the layout
	vrt    bool
}

// flags adds the flags to a command. folder is the name of that for the folder.
func (s *saving) flags(command *cobra.Command, folder, help string) {
	command.Flags().StringVarP(&s.folder, folder, "o", "", help)
	command.Flags().StringVar(&s.names, "layout", inFolders, layoutHelp)
	command.Flags().BoolVar(&s.vrt, "vrt", false, vrtHelp)
	_ = command.MarkFlagDirname(folder) // fails only for unknown flags
}

// again returns the command that goes on with a download.
func (s *saving) again(t target) string {
	words := []string{"download", t.String(), "--follow"}
	if s.folder != "" {
		words = append(words, "-o", Quoted(s.folder))
	}
	if s.names != inFolders {
		words = append(words, "--layout", Quoted(s.names))
	}
	if s.vrt {
		words = append(words, "--vrt")
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Quoted returns a word as it is written in a POSIX shell.
func Quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// check refuses what cannot be done, before anything is submitted.
func (s *saving) check() error {
	_, err := parseLayout(s.names)
	return err
}

// Parallel is the number of files that are downloaded at once.
const Parallel = 4

const collectionFile = "collection.json"

// downloads is a download of all results of a job or task to a folder.
type downloads struct {
	*app
	client *client.Client
	target
	layout *layout // of a task
	vrt    bool    // a mosaic of its GeoTIFFs is written
	folder string
	root   *os.Root // the folder: a link in it that others made leads nowhere else
	lock   *flock.Flock
	files  client.Downloader
	lasts  bool // through outages, as it follows

	fetched, present, bytes atomic.Int64

	mu      sync.Mutex
	jobs    map[int64]any // the Items of those whose results are there
	tiles   []tile
	unfit   []error // why files are not among the tiles
	failed  []error // of files that could not be downloaded
	missing missingJobs
}

// downloads prepares a folder. It refuses one that holds the results of something else, and one that another process
// downloads to.
func (a *app) downloads(c *client.Client, t target, to saving) (d *downloads, err error) {
	l, err := parseLayout(to.names)
	if err != nil {
		return nil, err
	}
	folder := cmp.Or(to.folder, t.String())
	d = &downloads{app: a, client: c, target: t, layout: l, vrt: to.vrt, folder: folder, jobs: map[int64]any{}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return d, err
	}
	if d.root, err = os.OpenRoot(folder); err != nil {
		return d, err
	}
	if err := d.lockFolder(); err != nil {
		return d, err
	}
	d.files.HTTP, d.files.Root, d.files.Received = &http.Client{Transport: a.Transport}, d.root,
		func(n int64) { d.bytes.Add(n) }
	var there struct {
		Source string `json:"eodispatch:id"`
	}
	text, err := d.root.ReadFile(collectionFile)
	if err == nil && (json.Unmarshal(text, &there) != nil || there.Source != d.source()) {
		return d, usage("%s holds other results (%s): choose another folder", folder,
			cmp.Or(there.Source, collectionFile))
	}
	return d, nil
}

const lockFile = ".eodispatch.lock"

// lockFolder keeps other processes from downloading to the folder. The file of the lock stays: a process that had
// opened a deleted one would not see the lock of the next.
func (d *downloads) lockFolder() error {
	file, err := d.root.OpenFile(lockFile, os.O_CREATE|os.O_RDONLY, 0o666) // the lock itself would follow a link
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	d.lock = flock.New(filepath.Join(d.folder, lockFile))
	switch locked, err := d.lock.TryLock(); {
	case err != nil:
		d.hint("%s cannot be locked (%v): do not download to it by two processes at once.", d.folder, err)
	case !locked:
		return fmt.Errorf("another process downloads to %s. Wait for its end, or choose another folder", d.folder)
	}
	return nil
}

func (d *downloads) close() {
	if d.lock != nil {
		_ = d.lock.Close() // the end of the process unlocks it too
	}
	if d.root != nil {
		_ = d.root.Close() // nothing is written by it
	}
}

// source names the job or task in the collection, so that a folder is not used for two.
func (d *downloads) source() string { return d.client.URL() + "#" + d.target.String() }

// fetchAll downloads what is finished now, and writes the collection.
func (d *downloads) fetchAll(ctx context.Context) error {
	if !d.task {
		found, err := persist(ctx, d, func() (*wire.Collection, error) { return resultsOf(ctx, d.client, d.id) })
		if err != nil {
			return err
		}
		return d.fetchJob(ctx, found)
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(Parallel)
	var listing error
	for i, err := range d.client.TaskItems(within, d.id) {
		if d.missing.add(err) {
			continue
		}
		if err != nil {
			listing = err
			break
		}
		group.Go(func() error { return d.fetchItem(within, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return errors.Join(listing, d.writeTask(ctx))
}

// ended returns an error while there are no results of a job, or more results of a task to come.
func ended(ctx context.Context, c *client.Client, t target) error {
	if !t.task {
		_, err := resultsOf(ctx, c, t.id)
		return err
	}
	task, err := c.TaskSummary(ctx, t.id)
	if err == nil && !task.Status.Final() {
		err = &exitError{ExitRunning, fmt.Errorf("%s has not ended: %s. Run the command again for the rest, or with "+
			"--follow", t, countsOf(task.Counts))}
	}
	return err
}

// fetchJob downloads the files of a job and writes its collection.
func (d *downloads) fetchJob(ctx context.Context, found *wire.Collection) error {
	renew := func(ctx context.Context) (map[string]wire.Asset, error) {
		again, err := persist(ctx, d, func() (*wire.Collection, error) { return resultsOf(ctx, d.client, d.id) })
		if err != nil {
			return nil, err
		}
		return again.Assets, nil
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(Parallel)
	names := client.FileNames(found.Assets)
	for key := range found.Assets {
		group.Go(func() error { return d.fetch(within, found.Assets, key, names[key], renew) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for key, name := range names {
		names[key] = "./" + name
	}
	document, err := localized(found.Raw, found.Assets, names)
	if err != nil {
		return err
	}
	document["eodispatch:id"] = d.source()
	relink(document, link{"self", "./" + collectionFile, "application/json"},
		link{"root", "./" + collectionFile, "application/json"})
	return d.writeJSON(collectionFile, document)
}

// fetchItem downloads the files of one job of a task, and writes its Item beside them.
func (d *downloads) fetchItem(ctx context.Context, i client.Item) error {
	job, err := idOfItem(i)
	if err != nil {
		return err
	}
	renew := func(ctx context.Context) (map[string]wire.Asset, error) {
		again, err := d.item(ctx, job)
		return again.Assets, err
	}
	names := client.FileNames(i.Assets)
	for key := range i.Assets {
		if names[key], err = d.layout.place(i, key, names[key]); err != nil {
			return err
		}
		if err := d.fetch(ctx, i.Assets, key, names[key], renew); err != nil {
			return err
		}
		if d.vrt && isGeoTIFF(i.Assets[key]) {
			d.addTile(i, key, names[key])
		}
	}
	return errors.Join(d.addItem(i, job, names), d.writeItem(i, job, names))
}

// isGeoTIFF reports whether an asset is an image in the form TIFF.
func isGeoTIFF(asset wire.Asset) bool {
	ending := strings.ToLower(path.Ext(asset.Href))
	return strings.HasPrefix(asset.Type, "image/tiff") || asset.Type == "" && (ending == ".tif" || ending == ".tiff")
}

// writeItem writes the Item of a job, which refers to its files.
func (d *downloads) writeItem(i client.Item, job int64, files map[string]string) error {
	place := d.layout.item(job)
	folder, name := path.Split(place)
	for key, file := range files { // the Item is one folder deep
		if inside, beside := strings.CutPrefix(file, folder); beside {
			files[key] = "./" + inside
		} else {
			files[key] = "../" + file
		}
	}
	document, err := localized(i.Raw, i.Assets, files)
	if err != nil {
		return err
	}
	relink(document, link{"self", "./" + name, "application/geo+json"},
		link{"collection", "../" + collectionFile, "application/json"},
		link{"parent", "../" + collectionFile, "application/json"},
		link{"root", "../" + collectionFile, "application/json"})
	if err := d.root.MkdirAll(path.Clean(folder), 0o777); err != nil {
		return err
	}
	return d.writeJSON(place, document)
}

const itemFile = "item.json"

// item reads the results of one job of a task.
func (d *downloads) item(ctx context.Context, job int64) (client.Item, error) {
	return persist(ctx, d, func() (client.Item, error) { return d.client.TaskItem(ctx, d.id, job) })
}

// persist calls f, and calls it again through an outage if the download follows a job or task, as the watching does.
func persist[T any](ctx context.Context, d *downloads, f func() (T, error)) (v T, err error) {
	if !d.lasts {
		return f()
	}
	err = client.Persist(ctx, func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

// fetch downloads one asset. renew returns the assets anew, with fresh links.
func (d *downloads) fetch(ctx context.Context, assets map[string]wire.Asset, key, path string,
	renew func(context.Context) (map[string]wire.Asset, error)) error {
	asset := assets[key]
	fetched, err := d.files.Fetch(ctx, client.File{Href: asset.Href, Path: path, Size: asset.Size,
		Checksum: asset.Checksum,
		Renew: func(ctx context.Context) (string, error) {
			fresh, err := renew(ctx)
			if err == nil && fresh[key].Href == "" {
				err = errors.New("the results do not contain this file any more")
			}
			return fresh[key].Href, err
		}})
	switch {
	case err != nil && endsAll(ctx, err):
		return err
	case err != nil:
		d.note(err)
	case fetched:
		d.fetched.Add(1)
	default:
		d.present.Add(1)
	}
	return nil
}

// note keeps an error of one file: the others can still be had.
func (d *downloads) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = append(d.failed, err)
}

// endsAll reports whether an error of one file would also be that of all others.
func endsAll(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, os.ErrPermission) ||
		ExitCode(err) == ExitSignIn
}

// incomplete returns the error of the files and the jobs that could not be downloaded; nil if there are none.
func (d *downloads) incomplete() error {
	const shown = 5
	slices.SortFunc(d.missing, func(a, b *wire.MissingResults) int { return cmp.Compare(a.ID, b.ID) })
	missing := d.missing.err()
	if len(d.failed) == 0 {
		return missing
	}
	return errors.Join(missing, fmt.Errorf("%s could not be downloaded. Run the command again to try only "+
		"what is missing:\n%w", filesOf(int64(len(d.failed))), errors.Join(d.failed[:min(shown, len(d.failed))]...)))
}

type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
	Type string `json:"type"`
}

// relink replaces the links of a STAC object that say where it is. The Items of a Collection with assets of its own are
// left out too: their assets are among these, and programs would look for the Items at the platform, which may require
// a sign-in.
func relink(document map[string]any, here ...link) {
	links := []any{}
	for _, l := range here {
		links = append(links, l)
	}
	assets, _ := document["assets"].(map[string]any)
	all, _ := document["links"].([]any)
	for _, l := range all {
		l, _ := l.(map[string]any)
		switch l["rel"] {
		case nil, "self", "canonical", "root", "parent", "collection", "items", "next", "prev":
		case "item", "child":
			if len(assets) == 0 {
				links = append(links, l)
			}
		default:
			links = append(links, l)
		}
	}
	document["links"] = links
}

// localized returns a STAC object whose assets refer to files, by relative links.
func localized(raw json.RawMessage, assets map[string]wire.Asset, names map[string]string) (map[string]any, error) {
	var document map[string]any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // large ones stay what they are
	if err := numbers.Decode(&document); err != nil {
		return nil, err
	}
	all, _ := document["assets"].(map[string]any)
	for key := range assets {
		if one, ok := all[key].(map[string]any); ok {
			one["href"] = names[key]
			delete(one, "alternate") // leads elsewhere
			delete(one, "expires")   // that of the link
		}
	}
	return document, nil
}

// writeTask writes the collection of a task.
func (d *downloads) writeTask(ctx context.Context) error {
	found, err := persist(ctx, d, func() (wire.Collection, error) { return d.client.TaskResults(ctx, d.id) })
	if err != nil {
		return err
	}
	document, err := localized(found.Raw, nil, nil)
	if err != nil {
		return err
	}
	links := []link{{"self", "./" + collectionFile, "application/json"}, {"root", "./" + collectionFile,
		"application/json"}}
	for _, job := range slices.Sorted(maps.Keys(d.jobs)) {
		links = append(links, link{"item", "./" + d.layout.item(job), "application/geo+json"})
	}
	relink(document, links...)
	document["eodispatch:id"], document["eodispatch:missing"] = d.source(), append(missingJobs{}, d.missing...)
	if err := errors.Join(d.writeJSON(collectionFile, document), d.writeItems()); err != nil {
		return err
	}
	return d.writeMosaics()
}

func (d *downloads) writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return d.replace(path, text)
}

// replace writes a file of text, all at once.
func (d *downloads) replace(path string, text []byte) error {
	if err := d.root.WriteFile(path+".new", append(text, '\n'), 0o666); err != nil {
		return err
	}
	return d.root.Rename(path+".new", path)
}

// report says what was downloaded.
func (d *downloads) report(err error) error {
	if incomplete := d.incomplete(); err == nil || incomplete != nil && ExitCode(err) == ExitRunning {
		err = incomplete
	}
	if d.json {
		return errors.Join(err, d.print(map[string]any{"message_type": "download", "id": d.target.String(),
			"folder": d.folder, "fetched": d.fetched.Load(), "present": d.present.Load(),
			"bytes": d.bytes.Load(), "missing": append(missingJobs{}, d.missing...), "complete": err == nil}))
	}
	d.hint("%s downloaded (%s), %d skipped: %s", filesOf(d.fetched.Load()), size(d.bytes.Load()),
		d.present.Load(), d.folder)
	return err
}

func filesOf(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
}

const patience = 15 * time.Minute // with a file of which nothing arrives, while a job or task is followed

// downloadWhileRunning follows a job or task to its end, and downloads the results of each job as it finishes.
func (a *app) downloadWhileRunning(ctx context.Context, c *client.Client, t target, to saving) error {
	d, err := a.downloads(c, t, to)
	if err != nil {
		return err
	}
	defer d.close()
	d.lasts, d.files.Patience = true, patience
	if !t.task {
		err := a.follow(ctx, c, t, to.again(t), nil)
		if err != nil {
			return err
		}
		return d.report(d.fetchAll(ctx))
	}
	group, within := errgroup.WithContext(ctx)
	slots, known := semaphore.NewWeighted(Parallel), map[int64]bool{}
	followed := a.follow(within, c, t, to.again(t), func(j wire.ProcessingJobSummary) {
		if j.Status != wire.Finished || known[j.ID] {
			return
		}
		known[j.ID] = true
		group.Go(func() error { // the stream is read on meanwhile
			if err := slots.Acquire(within, 1); err != nil {
				return err
			}
			defer slots.Release(1)
			return d.fetchResults(within, j.ID)
		})
	})
	if err := group.Wait(); err != nil {
		return d.report(err)
	}
	if ctx.Err() != nil {
		return followed
	}
	if err := d.fetchLate(ctx); err != nil {
		return d.report(err)
	}
	return errors.Join(d.report(d.writeTask(ctx)), followed)
}

// fetchResults downloads the results of one job of a task. It notes why they cannot be read, for fetchLate.
func (d *downloads) fetchResults(ctx context.Context, job int64) error {
	var missing missingJobs
	i, err := persist(ctx, d, func() (client.Item, error) {
		i, err := d.client.TaskItem(ctx, d.id, job)
		if missing.add(err) {
			err = nil
		}
		return i, err
	})
	switch {
	case len(missing) > 0:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.missing = append(d.missing, missing...)
		return nil
	case err == nil:
		return d.fetchItem(ctx, i)
	case endsAll(ctx, err):
		return err
	}
	d.note(fmt.Errorf("%s: %w", target{false, job}, err))
	return nil
}

// fetchLate tries again to download the results that could not be read when their jobs finished, and may come. It ends
// as the download of one job does.
func (d *downloads) fetchLate(ctx context.Context) error {
	err := client.Persist(ctx, func() error {
		again := d.missing
		d.missing = nil
		for _, job := range again {
			if !job.Temporary {
				d.missing = append(d.missing, job)
			} else if err := d.fetchResults(ctx, job.ID); err != nil {
				return err
			}
		}
		for _, job := range d.missing {
			if job.Temporary {
				return job
			}
		}
		return nil
	})
	if _, missing := errors.AsType[*wire.MissingResults](err); missing && ctx.Err() == nil {
		return nil // d.missing has it
	}
	return err
}
