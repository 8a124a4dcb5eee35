// The program of TestGeneratedClient_SubmitsAJob: it is compiled together with the client that oapi-codegen makes of the document.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
)

func main() {
	if err := submit(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// submit submits a job to the broker at address and reads it back with its results.
func submit(address, token string) error {
	ctx := context.Background()
	c, err := NewClientWithResponses(address, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		return err
	}
	var service ServiceChoice
	if err := service.FromServiceDetails(ServiceDetails{Endpoint: "https://openeo.example.org", Application: "https://apps.example.org/ndvi.json"}); err != nil {
		return err
	}
	created, err := c.CreateUnitJobWithResponse(ctx, &CreateUnitJobParams{}, BaseJobRequest{
		Title: "NDVI", Label: new(Openeo), Format: "gtiff", Parameters: map[string]any{"x": 1},
		Service: service})
	if err != nil || created.JSON201 == nil {
		return fmt.Errorf("submitted: %v, %s", err, created.Body)
	}
	job, err := c.GetUnitJobWithResponse(ctx, created.JSON201.Id, &GetUnitJobParams{})
	if err != nil || job.JSON200 == nil {
		return fmt.Errorf("read: %v, %s", err, job.Body)
	}
	var status Status = job.JSON200.Status
	results, err := c.GetUnitJobResultsWithResponse(ctx, created.JSON201.Id)
	if err != nil || status == StatusFinished && results.JSON200 == nil {
		return fmt.Errorf("results: %v, %s", err, results.Body)
	}
	list, err := c.GetJobsStatusWithResponse(ctx, &GetJobsStatusParams{Filter: &[]JobsFilter{Processing}, Status: &[]Status{status}})
	if err != nil || list.JSON200 == nil || len(list.JSON200.ProcessingJobs) != 1 {
		return fmt.Errorf("listed: %v, %s", err, list.Body)
	}
	_, err = fmt.Println(status, list.JSON200.ProcessingJobs[0].Status)
	return err
}
