package events

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/notify/mail"
)

// mailScheme begins the URL of a hook that is notified by mail.
const mailScheme = "mailto:"

const (
	mailEvery  = 10 * time.Minute // between two mails to a hook, so that many events make few mails
	mailWithin = 20 * time.Second // one mail, with the wait for its turn
	perMail    = 1000             // deliveries in one mail
	mailLines  = 20               // events that it describes; it counts the others
)

// mailbox returns the address in the URL of a hook that is notified by mail.
func mailbox(url string) string { return url[min(len(mailScheme), len(url)):] }

// mailTarget checks who is to be notified by mail: users at their own address only.
func (s *Sender) mailTarget(n dispatch.Notify) error {
	if s.Mail == nil {
		return &dispatch.Error{Kind: dispatch.Unsupported, Op: "events.Target",
			Text: "This service sends no mail. Its operator can set hooks.mail."}
	}
	if !n.Verified || mail.CheckAddress(mailbox(n.URL)) != nil {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "events.Target",
			Text: "Mail is sent only to the e-mail address of your account, after the identity provider has verified " +
				"it."}
	}
	if n.Secret != "" {
		return dispatch.InvalidBody("events.Target", "Mail is not signed: leave the secret out.", "options", "notify",
			"secret")
	}
	return nil
}

// ofTasks returns the events of a hook that is notified by mail: with the ends of tasks if it has ends, because those
// of a task's jobs make no mail.
func ofTasks(statuses []dispatch.Status) []dispatch.Status {
	if slices.ContainsFunc(statuses, dispatch.Status.Final) && !slices.Contains(statuses, dispatch.TaskEnded) {
		return append(slices.Clip(statuses), dispatch.TaskEnded)
	}
	return statuses
}

// serveMail sends one mail about the due deliveries of a hook, and then nothing for a while. Ends of a task's jobs make
// no mail, events of the task do.
func (s *Sender) serveMail(ctx context.Context, h dispatch.Hook) error {
	for ctx.Err() == nil {
		claimed, err := s.Store.ClaimDeliveries(ctx, h.ID, lease, perMail)
		if err != nil || len(claimed) == 0 {
			return err
		}
		begun := time.Now()
		mailed, left := s.mail(context.WithoutCancel(ctx), h, claimed)
		now := claimed[0].Tried.Add(time.Since(begun))
		if h = settle(h, mailed, now); len(mailed) > 0 && h.Failures == 0 {
			h.Hold = now.Add(mailEvery)
		}
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
		err = s.Store.SettleDeliveries(saving, h, append(deliveriesOf(mailed), withoutMail(left)...))
		cancel()
		if err != nil || len(mailed) > 0 {
			return err
		}
	}
	return nil
}

// mail sends one mail about deliveries. left are those of jobs whose task makes a mail instead.
func (s *Sender) mail(ctx context.Context, h dispatch.Hook, claimed []dispatch.Delivery) (mailed []try,
	left []dispatch.Delivery) {
	for _, d := range claimed {
		if mailedByTask(d) {
			left = append(left, d)
		} else {
			mailed = append(mailed, try{Delivery: d})
		}
	}
	if len(mailed) == 0 {
		return nil, left
	}
	slices.SortFunc(mailed, func(a, b try) int {
		return cmp.Or(a.Happened.Compare(b.Happened), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Epoch, b.Epoch))
	})
	err := s.sendMail(ctx, h, deliveriesOf(mailed))
	s.OnTry(err == nil)
	for i := range mailed {
		mailed[i].err = err
	}
	return mailed, left
}

// withoutMail returns deliveries that are over without a mail, and the log says why.
func withoutMail(left []dispatch.Delivery) []dispatch.Delivery {
	for i := range left {
		left[i].State, left[i].Due, left[i].Notice = dispatch.DeliveryDone, time.Time{},
			"No mail is sent about this job, only about its task."
	}
	return left
}

// mailedByTask reports whether a delivery is of a job whose task makes the mail.
func mailedByTask(d dispatch.Delivery) bool {
	_, needed := d.Status.Needed()
	return d.Job != 0 && d.Task != 0 && !needed
}

func (s *Sender) sendMail(ctx context.Context, h dispatch.Hook, mailed []dispatch.Delivery) (err error) {
	defer dispatch.RecoverAsError(ctx, s.Log, "sending mail", &err)
	if s.Mail == nil {
		return &dispatch.Error{Kind: dispatch.Unsupported, Op: "events.mail", Text: "This service does not send " +
			"mail any more."}
	}
	ctx, cancel := context.WithTimeout(ctx, mailWithin)
	defer cancel()
	return s.Mail.Send(ctx, s.letter(ctx, h, mailed))
}

// letter writes the mail about deliveries. Its subject has no text of a user.
func (s *Sender) letter(ctx context.Context, h dispatch.Hook, mailed []dispatch.Delivery) mail.Message {
	all := headlines(mailed)
	m := mail.Message{To: mailbox(h.URL), ID: letterID(h, mailed), Subject: all[0].text}
	if len(all) > 1 {
		m.Subject = fmt.Sprintf("%s, and %d more", all[0].text, len(all)-1)
	}
	var text strings.Builder
	for i, line := range all {
		if i == mailLines {
			fmt.Fprintf(&text, "and %d more\n\n", len(all)-mailLines)
			break
		}
		text.WriteString(line.text + ".\n")
		if why, needed := line.first.Status.Needed(); needed {
			if advice := s.Advice(why); advice != "" {
				text.WriteString(advice + "\n")
			}
		}
		if s.Describe != nil && line.first.Status != dispatch.TestEvent {
			if about := s.Describe(ctx, h.Owner, line.first); about != "" {
				text.WriteString(about + "\n")
			}
		}
		text.WriteString("\n")
	}
	fmt.Fprintf(&text, "-- \n"+
		"You get this mail because you asked %s to notify you of your jobs. To stop it, delete the notification\n"+
		"%s on your account page there.\n", s.Source, h.ID)
	m.Text = text.String()
	return m
}

// letterID returns the same for the same events, so that a mail that is sent again after a crash is known to be the
// same, and one about more events is not.
func letterID(h dispatch.Hook, mailed []dispatch.Delivery) string {
	sum := sha256.New()
	for _, d := range mailed {
		fmt.Fprintln(sum, d.Event, d.Queued.UnixMicro())
	}
	return h.ID + "." + hex.EncodeToString(sum.Sum(nil)[:16])
}

// headline is a line about an event, or about jobs of one task that wait for the same reason.
type headline struct {
	text  string
	first dispatch.Delivery
}

// headlines returns the events of deliveries as text, tasks first.
func headlines(mailed []dispatch.Delivery) (all []headline) {
	type reason struct {
		task dispatch.TaskID
		why  dispatch.Status
	}
	waiting := map[reason]int{}
	for _, d := range mailed {
		if d.Job != 0 && d.Task != 0 {
			r := reason{d.Task, d.Status}
			if waiting[r]++; waiting[r] > 1 {
				continue
			}
		}
		all = append(all, headline{first: d})
	}
	slices.SortStableFunc(all, func(a, b headline) int { return cmp.Compare(order(a.first), order(b.first)) })
	for i := range all {
		all[i].text = sentence(all[i].first, waiting[reason{all[i].first.Task, all[i].first.Status}])
	}
	return all
}

func order(d dispatch.Delivery) int {
	switch {
	case d.Of != 0:
		return 0
	case d.Status == dispatch.SignInEvent, d.Task != 0:
		return 1
	}
	return 2
}

// sentence says what happened. waiting is how many jobs of the task wait for their owner for the same reason.
func sentence(d dispatch.Delivery, waiting int) string {
	if why, needed := d.Status.Needed(); needed {
		return need(d, why, waiting)
	}
	word, share := strings.CutPrefix(string(d.Status), dispatch.SharePrefix)
	switch {
	case d.Status == dispatch.TestEvent:
		return "This is the test that you asked for"
	case d.Status == dispatch.SignInEvent:
		return "Your jobs wait until you sign in"
	case share:
		return fmt.Sprintf("Task %d: %s %% of its jobs have ended", d.Of, word)
	case d.Of != 0:
		return fmt.Sprintf("Task %d has ended", d.Of)
	case d.Status == dispatch.Running:
		return fmt.Sprintf("Job %d is running", d.Job)
	case d.Status == dispatch.Canceled:
		return fmt.Sprintf("Job %d was canceled", d.Job)
	}
	return fmt.Sprintf("Job %d has %s", d.Job, d.Status)
}

// need says that a job or a task waits for its owner.
func need(d dispatch.Delivery, why dispatch.Attention, waiting int) string {
	switch {
	case d.Of != 0 && why == dispatch.TrialEnded:
		return fmt.Sprintf("The trial of task %d has ended", d.Of)
	case d.Of != 0 && why == dispatch.BudgetReached:
		return fmt.Sprintf("Task %d has reached its budget and is paused", d.Of)
	case d.Of != 0 && why == dispatch.BudgetUnusable:
		return fmt.Sprintf("Task %d cannot keep to its budget and is paused", d.Of)
	case d.Of != 0:
		return fmt.Sprintf("Task %d waits for you", d.Of)
	case d.Task != 0 && waiting > 1:
		return fmt.Sprintf("Task %d: %d jobs wait for you", d.Task, waiting)
	case d.Task != 0:
		return fmt.Sprintf("Task %d: job %d waits for you", d.Task, d.Job)
	}
	return fmt.Sprintf("Job %d waits for you", d.Job)
}
