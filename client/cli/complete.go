package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// completeWithin bounds how long the completion of a word may take.
const completeWithin = 10 * time.Second

// complete asks the broker for values of a word. Without a sign-in, or if it takes too long, there are none.
func (a *app) complete(list func(context.Context, *client.Client, func(value, description string)) error) ([]string,
	cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	var values []string
	c, err := a.client()
	if err == nil {
		err = list(ctx, c, func(value, description string) {
			values = append(values, cobra.CompletionWithDesc(value, oneLine(description, 60)))
		})
	}
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}

const mostCompleted = 100 // values of a kind

func (a *app) completeServices(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(func(ctx context.Context, c *client.Client, add func(string, string)) error {
		_, err := firstOf(c.Services(ctx, ""), mostCompleted, func(s wire.ServiceSummary) error {
			add(s.ID, s.Title)
			return nil
		})
		return err
	})
}

func (a *app) completePlatforms(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(func(ctx context.Context, c *client.Client, add func(string, string)) error {
		list, err := c.Platforms(ctx)
		for _, p := range list.Platforms {
			add(p.Name, p.Label+", "+p.State)
		}
		return err
	})
}

func (a *app) completeGrids(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.complete(func(ctx context.Context, c *client.Client, add func(string, string)) error {
		all, err := c.Grids(ctx)
		for _, g := range all {
			add(g.Name, g.Description)
		}
		return err
	})
}

func (a *app) completeTargets(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(func(ctx context.Context, c *client.Client, add func(string, string)) error {
		n := 0
		for t, err := range c.Tasks(ctx, client.Filter{PageSize: mostCompleted}) {
			if err != nil || n == mostCompleted {
				return err
			}
			add(target{true, t.ID}.String(), t.Title+", "+string(t.Status))
			n++
		}
		for j, err := range c.Jobs(ctx, client.Filter{PageSize: mostCompleted}) {
			if err != nil || n >= 2*mostCompleted {
				return err
			}
			add(target{false, j.ID}.String(), j.Title+", "+string(j.Status))
			n++
		}
		return nil
	})
}

func (a *app) completeBrokers(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	s, err := a.sessions()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var values []string
	for _, one := range s.all() {
		values = append(values, cobra.CompletionWithDesc(one.Name, one.URL))
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}
