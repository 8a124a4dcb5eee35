package cli

import (
	"context"
	"fmt"

	"github.com/eodispatch/eodispatch/client"
	"github.com/spf13/cobra"
)

func (a *app) tokenCommand() *cobra.Command {
	return &cobra.Command{Use: "token", GroupID: "access", Args: cobra.NoArgs,
		Short: "Print an access token, for other programs",
		Long: `Print an access token, for programs such as curl. It is valid for some minutes. Anyone who has it can act as you until
then: keep it out of logs and shell histories.`,
		Example: `  curl -H "Authorization: Bearer $(eodispatch token)" https://broker.example.org/jobs_status`,
		RunE: a.onClient(func(ctx context.Context, c *client.Client, _ []string) error {
			token, err := c.Token(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(map[string]string{"broker": c.URL(), "access_token": token})
			}
			_, err = fmt.Fprintln(a.Out, token)
			return err
		})}
}
