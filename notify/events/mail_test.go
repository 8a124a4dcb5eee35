package events_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/notify/mail"
	"github.com/eodispatch/eodispatch/test/mailbox"
)

// mailOutbox is an outbox whose sender sends mail to a real server.
func mailOutbox(t *testing.T, jobs int) (*outbox, *mailbox.Server) {
	t.Helper()
	o, server := newOutbox(t, jobs), mailbox.Start(t)
	var err error
	if o.sender.Mail, err = mail.New(mail.Config{Server: server.Address, From: "eo@broker.example.org",
		Encryption: mail.Plain}); err != nil {
		t.Fatal(err)
	}
	o.sender.Describe = func(_ context.Context, u dispatch.UserID, d dispatch.Delivery) string {
		return fmt.Sprintf("[%s %s]", u, d.Status)
	}
	return o, server
}

// mailHook notifies ann by mail.
func (o *outbox) mailHook(of ...dispatch.Status) dispatch.Hook {
	o.Helper()
	h, secret, err := o.sender.Create(o.Context(), "ann", dispatch.Notify{Kind: dispatch.Mail,
		URL: "mailto:ann@example.org", Verified: true, Statuses: of})
	if err != nil || secret != "" {
		o.Fatal(secret, err)
	}
	return h
}

// acceptTask accepts a task of ann and returns its jobs.
func (o *outbox) acceptTask(n int, hooks ...dispatch.Hook) (dispatch.TaskID, []dispatch.Job) {
	o.Helper()
	task := &dispatch.Task{Owner: "ann", Account: "p/shared", Dimension: "tile", Hooks: hooks}
	drafts := make([]dispatch.Draft, n)
	for i := range drafts {
		drafts[i] = dispatch.Draft{Body: []byte(`{}`), Job: dispatch.Job{Identity: dispatch.Identity{Number: i + 1,
			Owner: "ann"}, Target: dispatch.Target{Account: "p/shared"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
			Handover:  dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}}
	}
	if _, err := o.kept.Accept(o.Context(), dispatch.Key{}, task, drafts); err != nil {
		o.Fatal(err)
	}
	jobs := make([]dispatch.Job, n)
	for i, d := range drafts {
		jobs[i] = d.Job
	}
	return task.ID, jobs
}

// TestMail_OneForATask: the ends of a task's 200 jobs make no mail, the end of the task makes one; ends of single jobs
// of the next ten minutes make one together. All of it is in the log.
func TestMail_OneForATask(t *testing.T) {
	o, server := mailOutbox(t, 3)
	h := o.mailHook(dispatch.Finished, dispatch.Failed)
	_, jobs := o.acceptTask(200)
	o.end(jobs, dispatch.Finished)
	stop := o.run()
	first := server.Await(t, 1)[0]
	o.awaitState(h, dispatch.DeliveryDone)
	if first.Header.Get("Subject") != "Task 1 has ended" || first.To[0] != "ann@example.org" ||
		!strings.Contains(first.Text, "[ann task_ended]") || !strings.Contains(first.Text, "https://d.example.org") {
		t.Errorf("%+v", first)
	}
	o.end(o.jobs, dispatch.Finished)
	stop()
	if due, err := o.kept.DueHooks(t.Context(), 10, 10); err != nil || len(due) != 0 {
		t.Errorf("a second mail is due at once: %+v, %v", due, err)
	}
	o.clock.pass(11 * time.Minute)
	o.run()
	second := server.Await(t, 2)[1]
	if second.Header.Get("Subject") != fmt.Sprintf("Job %d has finished, and 2 more", o.jobs[0].ID) ||
		first.Header.Get("Message-Id") == second.Header.Get("Message-Id") {
		t.Errorf("%+v", second)
	}
	for _, d := range o.awaitState(h, dispatch.DeliveryDone) {
		if mailed := d.Of != 0 || d.Task == 0; mailed != (d.Notice == "") {
			t.Errorf("%+v", d)
		}
	}
	if n := len(server.Mails()); n != 2 {
		t.Errorf("%d mails", n)
	}
}

// TestMail_IsBounded: 1,010 jobs of a task, and 50 others, wait for their owner: two mails of few lines.
func TestMail_IsBounded(t *testing.T) {
	o, server := mailOutbox(t, 50)
	h := o.mailHook(dispatch.NeedsOwner)
	_, jobs := o.acceptTask(1010)
	for _, some := range [][]dispatch.Job{jobs, o.jobs} {
		for i := range some {
			some[i].Attention = dispatch.SetAside
		}
		if _, err := o.kept.Save(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	stop := o.run()
	for n := 1; n <= 2; n++ {
		server.Await(t, n)
		stop()
		o.clock.pass(11 * time.Minute)
		stop = o.run()
	}
	o.awaitState(h, dispatch.DeliveryDone)
	all := server.Mails()
	if len(all) != 2 {
		t.Fatalf("%d mails", len(all))
	}
	for _, m := range all {
		if len(m.Text) > 5000 || !regexp.MustCompile(`^Task 1: \d+ jobs wait for you`).MatchString(
			m.Header.Get("Subject")) {
			t.Errorf("%d bytes, %s", len(m.Text), m.Header.Get("Subject"))
		}
	}
}

// TestMail_IsSentAgain: a mail that is refused, or whose result was not stored, is repeated with the same id.
func TestMail_IsSentAgain(t *testing.T) {
	o, server := mailOutbox(t, 1)
	h := o.mailHook(dispatch.Finished)
	server.Refuse(&smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "later"})
	_, jobs := o.acceptTask(2)
	o.end(append(jobs[:1:1], o.jobs...), dispatch.Finished) // one of a task, about which there is no mail
	stop := o.run()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-again.C {
		found, err := o.kept.Hook(t.Context(), "ann", h.ID)
		if err != nil || time.Now().After(end) {
			t.Fatal(found, err)
		}
		if found.Failures == 1 {
			break
		}
	}
	stop()
	if all, err := o.kept.Deliveries(t.Context(), "ann", h.ID, 10); err != nil || len(all) != 2 ||
		!slices.ContainsFunc(all, func(d dispatch.Delivery) bool { return strings.Contains(d.Notice, "451") }) {
		t.Errorf("%+v, %v", all, err)
	}
	server.Refuse(nil)
	o.clock.pass(time.Minute)
	dying := &mortal{hooks: o.kept, at: "before the results are stored", dead: make(chan struct{})}
	o.sender.Store = dying
	stop = o.run()
	<-dying.dead
	stop()
	o.sender.Store = o.kept
	o.clock.pass(time.Minute)
	o.run()
	all := server.Await(t, 2)
	o.awaitState(h, dispatch.DeliveryDone)
	if a, b := all[0].Header.Get("Message-Id"), all[1].Header.Get("Message-Id"); a != b || a == "" {
		t.Errorf("%s, then %s", a, b)
	}
}

// TestMail_ToTheOwnAddressOnly: one that the identity provider has not verified, that is no plain address, or that a
// service without a server is to send to, is refused.
func TestMail_ToTheOwnAddressOnly(t *testing.T) {
	o, _ := mailOutbox(t, 0)
	for name, n := range map[string]dispatch.Notify{
		"not verified": {URL: "mailto:ann@example.org"}, "two": {URL: "mailto:ann@example.org,eve@example.org",
			Verified: true},
		"header": {URL: "mailto:ann@example.org?bcc=eve@example.org,", Verified: true},
		"lines":  {URL: "mailto:ann@example.org\r\nBcc: eve@example.org", Verified: true},
		"secret": {URL: "mailto:ann@example.org", Verified: true, Secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		"nobody": {URL: "mailto:", Verified: true},
	} {
		n.Kind = dispatch.Mail
		if _, err := o.sender.Target("ann", n); !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.sender.Mail = nil
	if _, err := o.sender.Target("ann", dispatch.Notify{Kind: dispatch.Mail, URL: "mailto:ann@example.org",
		Verified: true}); !dispatch.Is(err, dispatch.Unsupported) {
		t.Errorf("without a server: %v", err)
	}
}
