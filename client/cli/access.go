package cli

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cli/browser"
	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{Use: "whoami", GroupID: "access", Args: cobra.NoArgs,
		Short:   "Show who is signed in, and where",
		Long:    "Show who is signed in to which broker, and check that the broker accepts the sign-in.",
		Example: "  eodispatch whoami",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if _, err := c.Usage(ctx); err != nil {
				return err
			}
			token, err := c.Token(ctx)
			if err != nil {
				return err
			}
			who := claimsOf(token)
			if a.json {
				return a.print(map[string]any{"broker": c.URL(), "user": who.user(), "email": who.Email,
					"issuer": who.Issuer, "subject": who.Subject})
			}
			_, err = fmt.Fprintf(a.Out, "%s at %s (identity provider %s)\n", oneLine(who.user(), 200), c.URL(),
				oneLine(who.Issuer, 200))
			return err
		})}
}

func (a *app) linkCommand() *cobra.Command {
	return &cobra.Command{Use: "link PLATFORM", GroupID: "access", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completePlatforms,
		Short:             "Open the page where you link your account at a platform",
		Long: "Open the page where you link your account at a platform, so that jobs can run there under " +
			"your name.",
		Example: "  eodispatch link cdse",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := platform(ctx, c, args[0])
			if err != nil {
				return err
			}
			if p.Access != "user" {
				return fmt.Errorf("%s needs no account of yours (access %s)", p.Name, p.Access)
			}
			link := c.URL() + "/link/" + url.PathEscape(p.Name)
			if p.Attention != nil && p.Attention.Link != nil {
				link = *p.Attention.Link
			}
			return a.openPage(link)
		})}
}

// openPage shows the address of a page and opens it where there is a display.
func (a *app) openPage(address string) error {
	if a.json {
		return a.print(map[string]string{"link": address})
	}
	fmt.Fprintln(a.Out, printable(address))
	if client.Secure(address) && a.hasDisplay() && isTerminal(a.Err) {
		browser.Stdout, browser.Stderr = a.Err, a.Err
		_ = browser.OpenURL(address) // the page can be opened by hand
	}
	return nil
}

// platform returns the platform with a name.
func platform(ctx context.Context, c *client.Client, name string) (wire.Platform, error) {
	list, err := c.Platforms(ctx)
	if err != nil {
		return wire.Platform{}, err
	}
	var names []string
	for _, p := range list.Platforms {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return wire.Platform{}, usage("unknown platform %q; the platforms are: %s", name, strings.Join(names, ", "))
}

func (a *app) permitCommand() *cobra.Command {
	list, revoke := false, ""
	command := &cobra.Command{Use: "permit", GroupID: "access", Args: cobra.NoArgs,
		Short: "Permit your jobs to run while you are away",
		Long: `Open the page where you permit the broker to act for you after you have signed out, so that long tasks run to their end.
--list shows your permissions, --revoke withdraws one.`,
		Example: "  eodispatch permit\n  eodispatch permit --list\n  eodispatch permit --revoke ID",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, _ []string) error {
			switch {
			case revoke != "":
				return c.Revoke(ctx, revoke)
			case list:
				return a.showGrants(ctx, c)
			}
			link, err := c.NewGrant(ctx)
			if err != nil {
				return err
			}
			return a.openPage(link)
		})}
	command.Flags().BoolVar(&list, "list", false, "list the permissions")
	command.Flags().StringVar(&revoke, "revoke", "", "withdraw the permission with this id")
	return command
}

func (a *app) showGrants(ctx context.Context, c *client.Client) error {
	all, err := c.Grants(ctx)
	if err != nil || a.json {
		return a.printOr(err, all)
	}
	return a.table("ID\tKIND\tPLATFORMS\tENDS", func(row func(...any)) {
		for _, g := range all {
			ends := "when it is withdrawn"
			if g.Expires != nil {
				ends = moment(*g.Expires)
			}
			row(g.ID, g.Kind, strings.Join(g.Platforms, ", "), ends)
		}
	})
}

// printOr returns an error or, if there is none, prints v as JSON.
func (a *app) printOr(err error, v any) error {
	if err != nil {
		return err
	}
	return a.print(v)
}

func (a *app) usageCommand() *cobra.Command {
	label := ""
	command := &cobra.Command{Use: "usage", GroupID: "access", Args: cobra.NoArgs,
		Short:   "Show your use and limits at each platform, and what your jobs cost",
		Example: "  eodispatch usage\n  eodispatch usage --by-label project",
		RunE: a.onClient(func(ctx context.Context, c *client.Client, _ []string) (err error) {
			var all []wire.Usage
			if label == "" {
				all, err = c.Usage(ctx)
			} else {
				all, err = c.UsageByLabel(ctx, label)
			}
			if err != nil || a.json {
				return a.printOr(err, all)
			}
			return a.usageTables(all, label)
		})}
	command.Flags().StringVar(&label, "by-label", "", "show costs by the value of the label `KEY`")
	return command
}

// usageTables prints what a user uses of each platform, and what that cost in each month, by the value of a label
// unless that is empty.
func (a *app) usageTables(all []wire.Usage, label string) error {
	charged := false
	err := a.table("PLATFORM\tLIVE JOBS\tLAST DAY\tALL JOBS", func(row func(...any)) {
		for _, u := range all {
			row(u.Platform, share(u.Live, u.LiveOf), share(u.LastDay, u.DayOf), u.Jobs)
			charged = charged || len(u.Charges) > 0
		}
	})
	if err != nil || !charged {
		return err
	}
	fmt.Fprintln(a.Out)
	header := "MONTH\tPLATFORM\tRUNS\tCOSTS"
	if label != "" {
		header += "\t" + strings.ToUpper(label)
	}
	return a.table(header, func(row func(...any)) {
		for _, u := range all {
			for _, c := range u.Charges {
				cells := []any{c.Month, u.Platform, c.Runs, strings.TrimSpace(fmt.Sprintf("%.2f %s", c.Costs, c.Unit))}
				if label != "" {
					cells = append(cells, orDash(c.Label))
				}
				row(cells...)
			}
		}
	})
}

// orDash returns a value for a table; a dash for none.
func orDash[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

func share(n int, limit *int) string {
	if limit == nil {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, *limit)
}

// moment formats a time for people, in their time zone.
func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// table prints a header and rows in columns. On a terminal long texts are cut, so that rows stay lines.
func (a *app) table(header string, rows func(row func(...any))) error {
	w, most := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0), math.MaxInt
	if isTerminal(a.out.Writer) {
		most = 80
	}
	fmt.Fprintln(w, header)
	rows(func(cells ...any) {
		texts := make([]string, len(cells))
		for i, c := range cells {
			texts[i] = oneLine(fmt.Sprint(c), most)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(texts, "\t"), "\t"))
	})
	return w.Flush()
}

// oneLine returns a text of a server in one line of at most so many characters, without control characters.
func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(printable(text)), " ")
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return text
}
