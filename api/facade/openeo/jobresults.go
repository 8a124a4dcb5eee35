package openeo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// readResults returns the results of a batch job as a STAC Collection. With partial=true a job that has not ended has
// the results that there are.
func (f *Facade) readResults(r *request) (*answer, error) {
	e, err := f.find(r, fresh)
	if err != nil {
		return nil, err
	}
	return f.resultsOf(r, e, r.URL.Query().Get("partial") == "true", f.now().Add(files.Life))
}

// resultsOf returns the results of a batch job. Their canonical link is valid until expires.
func (f *Facade) resultsOf(r *request, e entry, partial bool, expires time.Time) (*answer, error) {
	status := e.status()
	switch {
	case e.Unstarted != nil:
		return nil, refused(http.StatusBadRequest, "JobNotStarted", "This batch job was not started. Start it first.")
	case status == "error":
		return f.failureOf(r, e)
	case status == "canceled" && e.Task == nil:
		return nil, refused(http.StatusBadRequest, "JobNotFinished", "This batch job was canceled and has no results.")
	case !ended(status) && !partial:
		return nil, refused(http.StatusBadRequest, "JobNotFinished",
			"This batch job has not finished yet. Its results are read later, or with partial=true as far as there "+
				"are any.")
	}
	c, err := f.collectionOf(r, e, expires)
	if err != nil {
		return nil, err
	}
	if c["openeo:status"], err = json.Marshal(resultStatus(status)); err != nil {
		return nil, err
	}
	if err := f.linkResults(r, c, e, expires); err != nil {
		return nil, err
	}
	header := http.Header{}
	costs, err := f.costsOf(r, e)
	if costs != nil {
		header["Openeo-Costs"] = []string{strconv.FormatFloat(*costs, 'f', -1, 64)}
	}
	return &answer{Body: c, Header: header}, err
}

// resultStatus returns a status as results have it, which know no queue.
func resultStatus(word string) string {
	if word == "queued" {
		return "running"
	}
	return word
}

// failureOf returns the response for the results of a batch job that failed: the last error of its log.
func (f *Facade) failureOf(r *request, e entry) (*answer, error) {
	all, err := f.logOf(r, e, logPlace{})
	if err != nil {
		return nil, err
	}
	last := logEntry{ID: "0", Level: "error", Message: "The batch job failed."}
	for _, e := range all {
		if e.Level == "error" {
			last = e
		}
	}
	return &answer{Status: http.StatusFailedDependency, Body: struct {
		logEntry
		Code  string `json:"code"`
		Links []link `json:"links"`
	}{last, "JobFailed", append([]link{}, last.Links...)}}, nil
}

// collectionOf returns the results of a batch job as far as there are any.
func (f *Facade) collectionOf(r *request, e entry, expires time.Time) (stac.Object, error) {
	if e.Task != nil {
		return f.taskCollection(r, *e.Task, expires)
	}
	raw, err := f.Broker.Results(r.Context(), r.user, e.Job.ID)
	if dispatch.Is(err, dispatch.Conflict) { // it ended otherwise in the meantime
		return nil, refused(http.StatusBadRequest, "JobNotFinished", dispatch.TextFor(err))
	}
	if err != nil {
		return nil, err
	}
	c := stac.Object{}
	if raw != nil {
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, err
		}
	}
	if c["assets"] == nil {
		c["assets"] = json.RawMessage("{}")
	}
	stac.Complete(c, "job-"+e.id(), stac.Extent{})
	return c, f.passFiles(r, c, e.Job.Job, expires)
}

// linkResults replaces the links of results to themselves: by their address here, and by one that needs no token until
// it expires.
func (f *Facade) linkResults(r *request, c stac.Object, e entry, expires time.Time) error {
	kept := []stac.Object{}
	for _, l := range stac.Links(c) {
		switch stac.Text(l["rel"]) {
		case "self", "canonical", "root", "parent":
		default:
			kept = append(kept, l)
		}
	}
	signed, err := files.Seal(f.Secret, resultsPurpose, resultsLink{r.user, e.id(), r.view.name(), expires.Unix()})
	if err != nil {
		return err
	}
	links := []link{{Rel: "self", Href: r.root + "/jobs/" + e.id() + "/results", Type: "application/json"},
		{Rel: "canonical", Href: r.root + "/results/" + signed, Type: "application/json",
			Title: "These results, without a token"}}
	var all []any
	for _, l := range links {
		all = append(all, l)
	}
	for _, l := range kept {
		all = append(all, l)
	}
	c["links"], err = dispatch.Encode(all)
	return err
}

// followResults returns the results that a canonical link leads to. The canonical link among them expires when this one
// does.
func (f *Facade) followResults(r *request) (*answer, error) {
	var l resultsLink
	switch _, ok := files.Open(f.Secret, resultsPurpose, r.PathValue("link"), &l); {
	case !ok || l.Platform != r.view.name():
		return nil, errNoPath
	case !f.now().Before(time.Unix(l.Expires, 0)):
		return nil, refused(http.StatusGone, "ResultLinkExpired",
			"This link to the results has expired. Request the results again.")
	}
	r.user = l.User
	r.SetPathValue("job_id", l.ID)
	e, err := f.find(r, broker.AsKnown)
	if err != nil {
		return nil, err
	}
	return f.resultsOf(r, e, true, time.Unix(l.Expires, 0))
}

const (
	resultsAtOnce = 100
	resultsMargin = 15 * time.Second // of the request's time, for writing the response
	collectTurn   = 30 * time.Second // how long a request for the results of a task waits for those of other tasks
)

// missingResults says why a finished job of a task has no assets in its results.
type missingResults struct {
	Tile    int    `json:"tile"` // number of the job
	Name    string `json:"name,omitempty"`
	Code    string `json:"code"`
	Message string `json:"message"`
	MayCome bool   `json:"temporary"`
}

// describeMissing returns a sentence about the first jobs without results; "" if there are none.
func describeMissing(all []missingResults) string {
	const most = 5
	text := &strings.Builder{}
	for i, m := range all[:min(most, len(all))] {
		text.WriteString(map[bool]string{true: " Missing: ", false: "; "}[i == 0])
		fmt.Fprintf(text, "tile %d", m.Tile)
		if m.Name != "" {
			fmt.Fprintf(text, " (%s)", m.Name)
		}
		text.WriteString(", " + strings.TrimRight(m.Message, ". "))
	}
	switch {
	case len(all) > most:
		fmt.Fprintf(text, "; and %d more.", len(all)-most)
	case len(all) > 0:
		text.WriteString(".")
	}
	return text.String()
}

// taskCollection returns the results of the finished jobs of a task as one Collection, as far as they can be read: it
// names the others. If none can be read, it is the error of the first.
func (f *Facade) taskCollection(r *request, t dispatch.TaskRecord, expires time.Time) (stac.Object, error) {
	ctx := r.Context()
	waiting, cancelWait := context.WithTimeout(ctx, collectTurn)
	defer cancelWait()
	leave, err := f.collecting.Acquire(waiting, r.user, 1)
	if err != nil {
		return nil, refused(http.StatusServiceUnavailable, "InfrastructureBusy",
			"The results of other tasks are being read. Request these again later.")
	}
	defer leave()
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-resultsMargin))
		defer cancel()
	}
	var extent stac.Extent
	var failure error
	missing, assets, after, size := []missingResults{}, stac.Object{}, dispatch.ResultPosition{}, int64(0)
	for more := true; more; {
		part, err := f.Broker.TaskResults(ctx, r.user, t.ID, after, resultsAtOnce)
		if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
			return nil, refused(http.StatusServiceUnavailable, "InfrastructureBusy",
				fmt.Sprintf("The results of %d of %d jobs were read in time. The broker keeps them: request the "+
					"results again.", len(assets), t.Counts[dispatch.Finished]))
		}
		if err != nil {
			return nil, err
		}
		for _, j := range part.Jobs {
			after = j.ResultPosition()
			if j.Err != nil {
				failure = cmp.Or(failure, j.Err)
				missing = append(missing, missingResults{j.Number, j.Name(), codes[dispatch.KindOf(j.Err)].code,
					dispatch.TextFor(j.Err), j.MayCome()})
				continue
			}
			n, err := f.addTile(r, assets, &extent, j, expires)
			if err != nil {
				return nil, err
			}
			size += n
		}
		if err := bounds.TaskResults.Check(size); err != nil {
			return nil, refused(http.StatusRequestEntityTooLarge, "FileSizeExceeded",
				fmt.Sprintf("The results in one document have %v. Read them in pages: "+
					"%s/upscale_tasks/%d/results/items", err, r.BaseURL(r.outer), t.ID))
		}
		more = part.More
	}
	if len(assets) == 0 && failure != nil {
		return nil, failure
	}
	c := stac.Object{}
	for name, v := range map[string]any{"eodispatch:missing": missing, "id": fmt.Sprintf("task-%d", t.ID),
		"title": t.Request.Title, "assets": assets,
		"description": t.DescribeResults(len(missing)) + describeMissing(missing)} {
		text, err := dispatch.Encode(v)
		if err != nil {
			return nil, err
		}
		c[name] = text
	}
	stac.Complete(c, "", extent)
	return c, nil
}

// titled returns an asset whose title begins with the name of its tile; as it is if the tile has none.
func titled(asset json.RawMessage, tile, name string) json.RawMessage {
	var a stac.Object
	if tile == "" || json.Unmarshal(asset, &a) != nil || a == nil {
		return asset
	}
	title, err := dispatch.Encode(tile + ": " + cmp.Or(stac.Text(a["title"]), name))
	if err != nil {
		return asset
	}
	a["title"] = title
	if whole, err := dispatch.Encode(a); err == nil {
		return whole
	}
	return asset
}

// tileKey returns the key of an asset of a task, such as "3_31UFS_openEO.tif": the number and the name of its job, and
// its own key. Clients use keys as names of files. The number makes them differ, because two jobs may have one name.
func tileKey(j dispatch.Job, name string) string {
	tile := strconv.Itoa(j.Number)
	if j.Name() != "" {
		tile += "_" + inFileName(j.Name())
	}
	return tile + "_" + inFileName(name)
}

const longestPart = 60 // characters

// inFileName returns a text as it can stand in a file name: with a hyphen for all that is not a letter, digit, dot,
// hyphen or underscore. A longer text loses its beginning, because its end is the extension.
func inFileName(text string) string {
	plain := []rune(unsafeInNames.ReplaceAllString(text, "-"))
	return string(plain[max(0, len(plain)-longestPart):])
}

var unsafeInNames = regexp.MustCompile(`[^\pL\pN._-]+`)

// addTile adds the assets of a job to those of its task, and widens the extent. It returns the size of the assets in
// bytes.
func (f *Facade) addTile(r *request, assets stac.Object, extent *stac.Extent, j broker.JobResult,
	expires time.Time) (size int64, err error) {
	var own stac.Object
	c := stac.Object{}
	_ = json.Unmarshal(j.Collection, &c) // no results: no assets
	if err := f.passFiles(r, c, j.Job, expires); err != nil {
		return 0, err
	}
	_ = json.Unmarshal(c["assets"], &own)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		a := titled(own[name], j.Name(), name)
		key := tileKey(j.Job, name)
		for n := 2; assets[key] != nil; n++ {
			key = tileKey(j.Job, strconv.Itoa(n)+"_"+name)
		}
		assets[key] = a
		size += int64(len(key) + len(a))
	}
	var jobExtent stac.Extent
	jobExtent.Collection(c)
	if jobExtent.Box() != nil {
		extent.AddBox(jobExtent.Box())
	}
	extent.AddTimes(jobExtent.Times())
	return size, nil
}

// passFiles replaces the links to the files of a job's results by links through the broker until expires, if the
// platform's files are passed on.
func (f *Facade) passFiles(r *request, c stac.Object, j dispatch.Job, expires time.Time) error {
	if f.Files == nil {
		return nil
	}
	return f.Files.Pass(c, r.BaseURL(r.outer), r.user, j.Account, j.ID, expires)
}
