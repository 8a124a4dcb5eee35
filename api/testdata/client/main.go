// The program of TestGeneratedClient_SubmitsAJob: it is compiled together with the client that oapi-codegen makes of
// the document.
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
	if err := service.FromServiceDetails(ServiceDetails{Endpoint: "https://openeo.example.org",
		Application: "https://apps.example.org/ndvi.json"}); err != nil {
		return err
	}
	var format BaseJobRequest_Format
	if err := format.FromOutputFormatEnum(Gtiff); err != nil {
		return err
	}
	created, err := c.CreateUnitJobUnitJobsPostWithResponse(ctx, &CreateUnitJobUnitJobsPostParams{}, BaseJobRequest{
		Title: "NDVI", Label: new(Openeo), Format: &format, Parameters: map[string]any{"x": 1}, Service: service})
	if err != nil || created.JSON201 == nil {
		return fmt.Errorf("submitted: %v, %s", err, created.Body)
	}
	job, err := c.GetJobUnitJobsJobIdGetWithResponse(ctx, created.JSON201.Id, &GetJobUnitJobsJobIdGetParams{})
	if err != nil || job.JSON200 == nil {
		return fmt.Errorf("read: %v, %s", err, job.Body)
	}
	var status ProcessingStatusEnum = job.JSON200.Status
	results, err := c.GetJobResultsUnitJobsJobIdResultsGetWithResponse(ctx, created.JSON201.Id)
	if err != nil || status == ProcessingStatusEnumFinished && results.JSON200 == nil {
		return fmt.Errorf("results: %v, %s", err, results.Body)
	}
	list, err := c.GetJobsStatusJobsStatusGetWithResponse(ctx,
		&GetJobsStatusJobsStatusGetParams{Filter: &[]JobsFilter{Processing}, Status: &[]ProcessingStatusEnum{status}})
	if err != nil || list.JSON200 == nil || len(list.JSON200.ProcessingJobs) != 1 {
		return fmt.Errorf("listed: %v, %s", err, list.Body)
	}
	_, err = fmt.Println(status, list.JSON200.ProcessingJobs[0].Status)
	return err
}
