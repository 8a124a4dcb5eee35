package client_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// Submit a job, wait for its end, and download its results.
func Example() {
	w, err := newWorld() // a broker, and a platform that it knows
	if err != nil {
		log.Fatal(err)
	}
	defer w.close()
	folder, err := os.MkdirTemp("", "results-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	ctx := context.Background()
	c, err := client.New(w.url, client.Options{Token: func(context.Context) (string, error) { return "a-token", nil }})
	if err != nil {
		log.Fatal(err)
	}
	job, err := c.Submit(ctx, wire.BaseJobRequest{
		Title: "NDVI, June", Label: wire.OGCProcess, Format: "json",
		Service:    wire.ServiceChoice{Endpoint: w.OGCURL, Application: "ndvi"},
		Parameters: []byte(`{"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}}`),
	}, "")
	if err != nil {
		log.Fatal(err)
	}
	for now, err := range c.WatchJob(ctx, job.ID) {
		if err != nil {
			log.Fatal(err)
		}
		job = now.ProcessingJobSummary
	}
	fmt.Println(job.Status)
	results, err := c.Results(ctx, job.ID)
	if err != nil {
		log.Fatal(err)
	}
	var d client.Downloader
	for key, name := range client.FileNames(results.Assets) {
		fetched, err := d.Fetch(ctx, client.File{Href: results.Assets[key].Href, Path: filepath.Join(folder, name)})
		fmt.Println(name, fetched, err)
	}
	// Output:
	// finished
	// openEO.tif true <nil>
}

// Run a service over several areas, and list the jobs that did not finish.
func ExampleClient_Upscale() {
	w, err := newWorld()
	if err != nil {
		log.Fatal(err)
	}
	defer w.close()
	ctx, c := context.Background(), w.client()
	task, err := c.Upscale(ctx, w.tiled(3), "")
	if err != nil {
		log.Fatal(err)
	}
	for update, err := range c.WatchTask(ctx, task.ID) {
		if err != nil {
			log.Fatal(err)
		}
		if len(update.Tasks) > 0 {
			task = update.Tasks[0]
		}
		if task.Status.Final() {
			break
		}
	}
	fmt.Println(task.Status, task.Counts[wire.Finished])
	for job, err := range c.TaskJobs(ctx, task.ID, client.Filter{Statuses: []wire.Status{wire.Failed}}) {
		fmt.Println(job.ID, job.Failure, err)
	}
	// Output:
	// finished 3
}
