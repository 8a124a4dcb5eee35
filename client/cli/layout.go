package cli

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/eodispatch/eodispatch/client"
)

// layout names the files of a task, of fields in braces: see layoutHelp.
type layout struct {
	text string

	mu    sync.Mutex
	files map[string]string // which asset each path was given to
}

const (
	// inFolders is the layout with a folder for each job, in which its Item is, too.
	inFolders = "{job}/{file}"

	layoutHelp = `file names of a task, from {name} (of the tile or value), {time} (beginning of its time span), {job} ` +
		`(number), {asset}, {file} (the platform's name) and {extension}, such as {name}_{time}.{extension}`
)

var (
	field = regexp.MustCompile(`\{[^{}]*\}`)
	// ownName is what mosaics, and Items that are not in a folder of their job, may be named.
	ownName = regexp.MustCompile(`(?i)^(mosaic[^/]*\.vrt|items/[0-9]+\.json)(\.new)?$`)

	fields = []string{"{name}", "{time}", "{job}", "{asset}", "{file}", "{extension}"}
)

// parseLayout refuses a text that has another field.
func parseLayout(text string) (*layout, error) {
	for _, name := range field.FindAllString(text, -1) {
		if !slices.Contains(fields, name) {
			return nil, usage("--layout: unknown field %s; fields are %s", name, strings.Join(fields, ", "))
		}
	}
	return &layout{text: text, files: map[string]string{}}, nil
}

// place returns the path of a file, in the folder of the download. It refuses one that another file has.
func (l *layout) place(i client.Item, asset, file string) (string, error) {
	values := strings.NewReplacer("{name}", safeField(nameOfItem(i)), "{time}", safeField(startOfItem(i)),
		"{job}", safeField(i.ID), "{asset}", safeField(asset), "{file}", file,
		"{extension}", strings.TrimPrefix(path.Ext(file), "."))
	var parts []string
	for part := range strings.SplitSeq(l.text, "/") {
		parts = append(parts, client.SafeName(values.Replace(part)))
	}
	place, owner := path.Join(parts...), i.ID+" "+asset
	if ownName.MatchString(place) {
		place = "_" + place
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, taken := l.files[strings.ToLower(place)]; taken && other != owner {
		return "", usage("--layout %s gives several files the name %s: add {job}, {asset} or {file}", l.text, place)
	}
	l.files[strings.ToLower(place)] = owner
	return place, nil
}

// item returns the path of a job's Item: beside its files if these have a folder of their own.
func (l *layout) item(job int64) string {
	if l.text == inFolders {
		return fmt.Sprintf("%d/%s", job, itemFile)
	}
	return fmt.Sprintf("items/%d.json", job)
}

// safeField keeps the text of a field from leading to another folder.
func safeField(text string) string {
	return strings.Trim(strings.NewReplacer("/", "_", `\`, "_").Replace(text), ". ")
}

// nameOfItem returns the name of the job's tile or values; its number without one.
func nameOfItem(i client.Item) string {
	name, _ := i.Properties["name"].(string)
	return cmp.Or(name, i.ID)
}

// startOfItem returns the beginning of the data's time span; the day alone at midnight.
func startOfItem(i client.Item) string {
	start, _ := i.Properties["start_datetime"].(string)
	if start == "" {
		start, _ = i.Properties["datetime"].(string)
	}
	return strings.TrimSuffix(start, "T00:00:00Z")
}

// idOfItem returns the job that an Item belongs to.
func idOfItem(i client.Item) (int64, error) {
	job, err := strconv.ParseInt(i.ID, 10, 64)
	if err != nil {
		err = fmt.Errorf("the Item %q has no job", i.ID)
	}
	return job, err
}
