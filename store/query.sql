-- One text for SQLite and PostgreSQL, in PostgreSQL's grammar. SQLite matches $n by number. Casts give sqlc, and
-- PostgreSQL, the types that they cannot infer. A LIMIT is always cast: SQLite inspects a bare parameter while it plans,
-- and then plans again at each execution.

-- name: ReserveIDs :one
UPDATE ids SET last = last + sqlc.arg(n) WHERE name = sqlc.arg(name) RETURNING last;

-- name: CreateUnstarted :exec
INSERT INTO unstarted (job, task, owner, account, title, body, created, updated, expires)
VALUES (sqlc.arg(job), sqlc.arg(task), sqlc.arg(owner), sqlc.arg(account), sqlc.arg(title), sqlc.arg(body), sqlc.arg(now), sqlc.arg(now), sqlc.arg(expires));

-- name: GetUnstarted :one
SELECT * FROM unstarted WHERE job = sqlc.arg(job) AND task = CAST(sqlc.arg(task) AS BIGINT) AND owner = sqlc.arg(owner) AND expires > CAST(sqlc.arg(now) AS BIGINT);

-- name: ListUnstarted :many
-- Without the bodies, which may be large. See dispatch.UnstartedID.Number for the order.
SELECT job, task, owner, account, title, created, updated, expires, version FROM unstarted
WHERE owner = sqlc.arg(owner) AND expires > CAST(sqlc.arg(now) AS BIGINT) AND created <= CAST(sqlc.arg(created) AS BIGINT)
	AND (created < CAST(sqlc.arg(created) AS BIGINT) OR 2 * (job + task) + CASE WHEN task = 0 THEN 0 ELSE 1 END < CAST(sqlc.arg(before) AS BIGINT))
	AND (CAST(sqlc.arg(of_accounts) AS TEXT) = '' OR replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT))
ORDER BY created DESC, 2 * (job + task) + CASE WHEN task = 0 THEN 0 ELSE 1 END DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ChangeUnstarted :one
UPDATE unstarted SET title = sqlc.arg(title), body = sqlc.arg(body), updated = sqlc.arg(now), version = version + 1
WHERE job = sqlc.arg(job) AND task = CAST(sqlc.arg(task) AS BIGINT) AND owner = sqlc.arg(owner) AND expires > CAST(sqlc.arg(now) AS BIGINT) AND version = sqlc.arg(version)
RETURNING *;

-- name: DeleteUnstarted :execrows
DELETE FROM unstarted WHERE job = sqlc.arg(job) AND task = CAST(sqlc.arg(task) AS BIGINT) AND owner = sqlc.arg(owner) AND expires > CAST(sqlc.arg(now) AS BIGINT);

-- name: StartUnstarted :execrows
DELETE FROM unstarted WHERE job = sqlc.arg(job) AND task = CAST(sqlc.arg(task) AS BIGINT) AND owner = sqlc.arg(owner) AND expires > CAST(sqlc.arg(now) AS BIGINT)
	AND version = sqlc.arg(version);

-- name: CountUnstarted :one
-- At an account, or at all if it is empty.
SELECT count(*) AS live, CAST(COALESCE(SUM(octet_length(body)), 0) AS BIGINT) AS bytes FROM unstarted
WHERE owner = sqlc.arg(owner) AND expires > CAST(sqlc.arg(now) AS BIGINT)
	AND (CAST(sqlc.arg(account) AS TEXT) = '' OR account = CAST(sqlc.arg(account) AS TEXT));

-- name: PurgeUnstarted :execrows
DELETE FROM unstarted WHERE (unstarted.job, unstarted.task) IN (SELECT u.job, u.task FROM unstarted u WHERE u.expires <= sqlc.arg(now)
	ORDER BY u.expires LIMIT CAST(sqlc.arg(n) AS BIGINT));

-- name: UseKey :execrows
-- Nothing changes if the key is in use. A concurrent second use of a key waits until the first commits.
INSERT INTO keys (owner, name, fingerprint, task, job, created)
VALUES (sqlc.arg(owner), sqlc.arg(name), sqlc.arg(fingerprint), sqlc.arg(task), sqlc.arg(job), sqlc.arg(now))
ON CONFLICT (owner, name) DO UPDATE SET fingerprint = excluded.fingerprint, task = excluded.task, job = excluded.job,
	created = excluded.created
WHERE keys.created <= sqlc.arg(expired);

-- name: GetKey :one
SELECT fingerprint, task, job FROM keys WHERE owner = sqlc.arg(owner) AND name = sqlc.arg(name) AND created > sqlc.arg(expired);

-- name: InsertTask :exec
INSERT INTO tasks (id, owner, account, request, dimension, created, sent, annotations, paused, paused_for, budget, budget_unit, trial, spread)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: InsertJobLabel :exec
INSERT INTO job_labels (job, owner, name, value, created) VALUES ($1, $2, $3, $4, $5);

-- name: InsertTaskLabel :exec
INSERT INTO task_labels (task, owner, name, value, created) VALUES ($1, $2, $3, $4, $5);

-- name: TouchJob :one
-- Locks the job. Its version changes, so that a visit that has read it before does not undo the change.
UPDATE jobs SET version = version + 1, updated = sqlc.arg(now) WHERE id = sqlc.arg(id) AND owner = sqlc.arg(owner) AND NOT hidden
RETURNING task, created, annotations;

-- name: TouchTask :one
-- Locks the task, like LockTask.
UPDATE tasks SET edited = sqlc.arg(now) WHERE id = sqlc.arg(id) AND owner = sqlc.arg(owner) AND NOT hidden RETURNING created, annotations;

-- name: AnnotateJob :exec
UPDATE jobs SET annotations = sqlc.arg(annotations) WHERE id = sqlc.arg(id);

-- name: AnnotateTask :exec
UPDATE tasks SET annotations = sqlc.arg(annotations) WHERE id = sqlc.arg(id);

-- name: DeleteJobLabels :exec
DELETE FROM job_labels WHERE job = $1;

-- name: DeleteTaskLabels :exec
DELETE FROM task_labels WHERE task = CAST(sqlc.arg(task) AS BIGINT);

-- name: HasDocument :one
SELECT EXISTS (SELECT 1 FROM documents WHERE hash = $1) AS kept;

-- name: KeepDocument :exec
INSERT INTO documents (hash, body) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING;

-- name: Define :exec
INSERT INTO definitions (task, job, owner, platform, service, document)
VALUES (sqlc.arg(task), sqlc.arg(job), sqlc.arg(owner), sqlc.arg(platform), sqlc.arg(service), sqlc.arg(document));

-- name: GetDocument :one
SELECT documents.body FROM jobs
	JOIN definitions ON definitions.task = jobs.task AND definitions.job = CASE WHEN jobs.task = 0 THEN jobs.id ELSE 0 END
	JOIN documents ON documents.hash = definitions.document
WHERE jobs.id = $1 AND jobs.owner = $2 AND NOT jobs.hidden;

-- name: GetSentProcess :one
-- Like GetDocument, for a visit.
SELECT documents.body FROM jobs
	JOIN definitions ON definitions.task = jobs.task AND definitions.job = CASE WHEN jobs.task = 0 THEN jobs.id ELSE 0 END
	JOIN documents ON documents.hash = definitions.document
WHERE jobs.id = $1;

-- name: ListOrigins :many
-- Waiting jobs have status created. Only they are read, by an index that has no others: definitions of ended jobs are many.
-- Those of further homes are read for each task with several homes.
SELECT d.platform, d.service FROM jobs j JOIN definitions d ON d.task = j.task AND d.job = CASE j.task WHEN 0 THEN j.id ELSE 0 END
WHERE j.phase = 'waiting' AND NOT j.hidden AND j.status = 'created'
UNION
SELECT h.platform, h.service FROM tasks JOIN task_homes h ON h.task = tasks.id
WHERE tasks.spread > 1 AND h.document <> ''
	AND EXISTS (SELECT 1 FROM jobs k WHERE k.task = tasks.id AND k.task <> 0 AND k.status = 'created' AND NOT k.hidden AND k.phase = 'waiting');

-- name: ListOutdated :many
-- The definitions of waiting jobs, as in ListOrigins, of which is not known that the document of their origin has this hash.
SELECT DISTINCT d.task, d.job FROM jobs j JOIN definitions d ON d.task = j.task AND d.job = CASE j.task WHEN 0 THEN j.id ELSE 0 END
WHERE j.phase = 'waiting' AND NOT j.hidden AND j.status = 'created' AND d.platform = sqlc.arg(platform) AND d.service = sqlc.arg(service)
	AND d.told <> CASE WHEN d.document = sqlc.arg(hash) THEN '' ELSE CAST(sqlc.arg(hash) AS TEXT) END
ORDER BY d.task, d.job;

-- name: ListOutdatedHomes :many
-- Like ListOutdated, the further homes of tasks. CROSS keeps SQLite from reading all homes.
SELECT h.task, h.account, tasks.owner FROM tasks CROSS JOIN task_homes h
WHERE tasks.spread > 1 AND h.task = tasks.id AND h.document <> '' AND h.platform = sqlc.arg(platform) AND h.service = sqlc.arg(service)
	AND h.told <> CASE WHEN h.document = sqlc.arg(hash) THEN '' ELSE CAST(sqlc.arg(hash) AS TEXT) END
	AND EXISTS (SELECT 1 FROM jobs k WHERE k.task = tasks.id AND k.task <> 0 AND k.status = 'created' AND NOT k.hidden AND k.phase = 'waiting')
ORDER BY tasks.id, h.account;

-- name: SetHomeDocumentHash :execrows
UPDATE task_homes SET told = CASE WHEN document = sqlc.arg(hash) THEN '' ELSE CAST(sqlc.arg(hash) AS TEXT) END
WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND account = sqlc.arg(account)
	AND told <> CASE WHEN document = sqlc.arg(hash) THEN '' ELSE CAST(sqlc.arg(hash) AS TEXT) END;

-- name: ListChangedHomes :many
-- The accounts of a task's homes where the document of the service has changed.
SELECT h.account FROM task_homes h WHERE h.task = CAST(sqlc.arg(task) AS BIGINT) AND h.told <> ''
UNION ALL
SELECT tasks.account FROM tasks JOIN definitions d ON d.task = tasks.id AND d.job = 0
WHERE tasks.id = CAST(sqlc.arg(task) AS BIGINT) AND d.told <> '';

-- name: SetDocumentHash :many
UPDATE definitions SET told = CASE WHEN document = sqlc.arg(hash) THEN '' ELSE CAST(sqlc.arg(hash) AS TEXT) END
WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND job = CAST(sqlc.arg(job) AS BIGINT) AND told <> CASE WHEN document = sqlc.arg(hash) THEN '' ELSE CAST(sqlc.arg(hash) AS TEXT) END
RETURNING owner;

-- name: Wake :exec
-- An account that is already due keeps its place in the queue.
INSERT INTO accounts (id, wakes, due) VALUES (sqlc.arg(id), 1, sqlc.arg(now))
ON CONFLICT (id) DO UPDATE SET wakes = accounts.wakes + 1,
	due = CASE WHEN accounts.due BETWEEN 1 AND excluded.due THEN accounts.due ELSE excluded.due END;

-- name: WakeToAccept :one
-- Like Wake. Returns for how long the account submits nothing, and why.
INSERT INTO accounts (id, wakes, due) VALUES (sqlc.arg(id), 1, sqlc.arg(now))
ON CONFLICT (id) DO UPDATE SET wakes = accounts.wakes + 1,
	due = CASE WHEN accounts.due BETWEEN 1 AND excluded.due THEN accounts.due ELSE excluded.due END
RETURNING hold, hold_attention, hold_notice;

-- name: WakeToRead :execrows
-- Skips accounts with a booked status read whose visit is planned for that time at the latest, and soon.
UPDATE accounts SET wakes = wakes + 1,
	due = CASE WHEN due BETWEEN 1 AND CAST(sqlc.arg(now) AS BIGINT) THEN due ELSE CAST(sqlc.arg(now) AS BIGINT) END
WHERE id = sqlc.arg(id) AND NOT (lease_until <= CAST(sqlc.arg(now) AS BIGINT) AND reading_slot > CAST(sqlc.arg(now) AS BIGINT)
	AND due BETWEEN 1 AND reading_slot AND due <= CAST(sqlc.arg(soon) AS BIGINT));

-- name: PlanVisit :exec
-- A running visit reads the agenda again.
UPDATE accounts SET wakes = wakes + 1, due = CASE WHEN due BETWEEN 1 AND CAST(sqlc.arg(due) AS BIGINT) THEN due ELSE CAST(sqlc.arg(due) AS BIGINT) END
WHERE id = sqlc.arg(id) AND (lease_until > CAST(sqlc.arg(now) AS BIGINT) OR NOT due BETWEEN 1 AND CAST(sqlc.arg(due) AS BIGINT));

-- name: GetRecord :one
SELECT sqlc.embed(jobs), requests.body, COALESCE(tasks.request, '') AS shared, COALESCE(tasks.dimension, '') AS dimension,
	accounts.hold, accounts.hold_attention, accounts.hold_notice,
	CAST(CASE WHEN tasks.spread > 0 AND jobs.account <> tasks.account
		THEN EXISTS (SELECT 1 FROM task_homes h WHERE h.task = jobs.task AND h.account = jobs.account AND h.told <> '')
		ELSE EXISTS (SELECT 1 FROM definitions WHERE definitions.task = jobs.task
			AND definitions.job = CASE WHEN jobs.task = 0 THEN jobs.id ELSE 0 END AND definitions.told <> '') END AS BOOLEAN) AS changed
FROM jobs JOIN requests ON requests.job = jobs.id JOIN accounts ON accounts.id = jobs.account
	LEFT JOIN tasks ON tasks.id = jobs.task
WHERE jobs.id = $1 AND jobs.owner = $2;

-- name: ListRecords :many
-- Of bodies longer than most bytes, unless most is 0, only the first characters are read, so that a page has a bounded size. A definition is not
-- looked for by EXISTS: PostgreSQL would read all definitions for a large page.
SELECT sqlc.embed(jobs), CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(requests.body) <= CAST(sqlc.arg(most) AS BIGINT) THEN requests.body
		WHEN CAST(sqlc.arg(most) AS BIGINT) > 0 THEN substr(requests.body, 1, CAST(CAST(sqlc.arg(most) AS BIGINT) AS INTEGER)) ELSE '' END AS TEXT) AS body,
	CAST(octet_length(requests.body) AS BIGINT) AS size, accounts.hold, accounts.hold_attention, accounts.hold_notice,
	CAST(COALESCE((SELECT definitions.told <> '' FROM definitions WHERE definitions.task = 0 AND definitions.job = jobs.id), FALSE) AS BOOLEAN) AS changed
FROM jobs JOIN requests ON requests.job = jobs.id JOIN accounts ON accounts.id = jobs.account
WHERE jobs.owner = sqlc.arg(owner) AND jobs.task = 0 AND NOT jobs.hidden AND jobs.created <= CAST(sqlc.arg(created) AS BIGINT)
	AND (jobs.created < CAST(sqlc.arg(created) AS BIGINT) OR jobs.id < CAST(sqlc.arg(before) AS BIGINT))
ORDER BY jobs.created DESC, jobs.id DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListRecordsOf :many
-- Like ListRecords, of one account and one status.
SELECT sqlc.embed(jobs), CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(requests.body) <= CAST(sqlc.arg(most) AS BIGINT) THEN requests.body
		WHEN CAST(sqlc.arg(most) AS BIGINT) > 0 THEN substr(requests.body, 1, CAST(CAST(sqlc.arg(most) AS BIGINT) AS INTEGER)) ELSE '' END AS TEXT) AS body,
	CAST(octet_length(requests.body) AS BIGINT) AS size, accounts.hold, accounts.hold_attention, accounts.hold_notice,
	CAST(COALESCE((SELECT definitions.told <> '' FROM definitions WHERE definitions.task = 0 AND definitions.job = jobs.id), FALSE) AS BOOLEAN) AS changed
FROM jobs JOIN requests ON requests.job = jobs.id JOIN accounts ON accounts.id = jobs.account
WHERE jobs.owner = sqlc.arg(owner) AND jobs.account = sqlc.arg(account) AND jobs.status = CAST(sqlc.arg(status) AS TEXT) AND jobs.task = 0 AND NOT jobs.hidden
	AND jobs.created <= CAST(sqlc.arg(created) AS BIGINT)
	AND (jobs.created < CAST(sqlc.arg(created) AS BIGINT) OR jobs.id < CAST(sqlc.arg(before) AS BIGINT))
ORDER BY jobs.created DESC, jobs.id DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListPlacesOf :many
-- The places of the jobs of ListRecordsOf.
SELECT created, id FROM jobs
WHERE owner = sqlc.arg(owner) AND account = sqlc.arg(account) AND status = CAST(sqlc.arg(status) AS TEXT) AND task = 0 AND NOT hidden
	AND created <= CAST(sqlc.arg(created) AS BIGINT)
	AND (created < CAST(sqlc.arg(created) AS BIGINT) OR id < CAST(sqlc.arg(before) AS BIGINT))
ORDER BY created DESC, id DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListChangedRecords :many
-- Like ListRecords. In lists of texts each text stands between bars; an empty list means all. The plus keeps databases from reading all jobs by
-- creation instead of those that changed.
WITH changed AS (
	SELECT j.id FROM jobs j WHERE j.owner = sqlc.arg(owner) AND j.task = 0 AND NOT j.hidden AND j.updated > CAST(sqlc.arg(since) AS BIGINT)
		AND +j.created <= CAST(sqlc.arg(created) AS BIGINT)
		AND (+j.created < CAST(sqlc.arg(created) AS BIGINT) OR j.id < CAST(sqlc.arg(before) AS BIGINT))
		AND (CAST(sqlc.arg(statuses) AS TEXT) = '' OR replace(CAST(sqlc.arg(statuses) AS TEXT), '|' || j.status || '|', '') <> CAST(sqlc.arg(statuses) AS TEXT))
		AND (CAST(sqlc.arg(of_accounts) AS TEXT) = '' OR replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || j.account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT))
	ORDER BY +j.created DESC, j.id DESC LIMIT CAST(sqlc.arg(n) AS BIGINT)
)
SELECT sqlc.embed(jobs), CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(requests.body) <= CAST(sqlc.arg(most) AS BIGINT) THEN requests.body
		WHEN CAST(sqlc.arg(most) AS BIGINT) > 0 THEN substr(requests.body, 1, CAST(CAST(sqlc.arg(most) AS BIGINT) AS INTEGER)) ELSE '' END AS TEXT) AS body,
	CAST(octet_length(requests.body) AS BIGINT) AS size, accounts.hold, accounts.hold_attention, accounts.hold_notice,
	CAST(COALESCE((SELECT definitions.told <> '' FROM definitions WHERE definitions.task = 0 AND definitions.job = jobs.id), FALSE) AS BOOLEAN) AS changed
FROM changed JOIN jobs ON jobs.id = changed.id JOIN requests ON requests.job = jobs.id JOIN accounts ON accounts.id = jobs.account
ORDER BY jobs.created DESC, jobs.id DESC;

-- name: ListLabeledRecords :many
-- Like ListRecords, of one label. Lists of texts are as in ListChangedRecords.
SELECT sqlc.embed(jobs), CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(requests.body) <= CAST(sqlc.arg(most) AS BIGINT) THEN requests.body
		WHEN CAST(sqlc.arg(most) AS BIGINT) > 0 THEN substr(requests.body, 1, CAST(CAST(sqlc.arg(most) AS BIGINT) AS INTEGER)) ELSE '' END AS TEXT) AS body,
	CAST(octet_length(requests.body) AS BIGINT) AS size, accounts.hold, accounts.hold_attention, accounts.hold_notice,
	CAST(COALESCE((SELECT definitions.told <> '' FROM definitions WHERE definitions.task = 0 AND definitions.job = jobs.id), FALSE) AS BOOLEAN) AS changed
FROM job_labels l JOIN jobs ON jobs.id = l.job JOIN requests ON requests.job = jobs.id JOIN accounts ON accounts.id = jobs.account
WHERE l.owner = sqlc.arg(owner) AND l.name = sqlc.arg(name) AND l.value = sqlc.arg(value) AND l.created <= CAST(sqlc.arg(created) AS BIGINT)
	AND (l.created < CAST(sqlc.arg(created) AS BIGINT) OR l.job < CAST(sqlc.arg(before) AS BIGINT))
	AND NOT jobs.hidden AND jobs.updated > CAST(sqlc.arg(since) AS BIGINT)
	AND (CAST(sqlc.arg(statuses) AS TEXT) = '' OR replace(CAST(sqlc.arg(statuses) AS TEXT), '|' || jobs.status || '|', '') <> CAST(sqlc.arg(statuses) AS TEXT))
	AND (CAST(sqlc.arg(of_accounts) AS TEXT) = '' OR replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || jobs.account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT))
ORDER BY l.created DESC, l.job DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: GetResult :one
SELECT COALESCE(results.body, '') AS body FROM jobs LEFT JOIN results ON results.job = jobs.id
WHERE jobs.id = $1 AND jobs.owner = $2 AND NOT jobs.hidden;

-- name: CancelJob :one
-- A job in doubt is due now as well, but not before its send deadline plus a margin. Statuses are those that the job may have, as in
-- ListChangedRecords.
UPDATE jobs SET desired = 'canceled', version = version + 1,
	due = CASE WHEN phase NOT IN ('creating', 'starting') OR send_by + CAST(sqlc.arg(margin) AS BIGINT) <= sqlc.arg(now) THEN sqlc.arg(now)
		WHEN send_by + CAST(sqlc.arg(margin) AS BIGINT) < due THEN send_by + CAST(sqlc.arg(margin) AS BIGINT) ELSE due END,
	status = CASE WHEN phase = 'waiting' THEN 'canceled' ELSE status END,
	turn = CASE WHEN phase = 'waiting' THEN turn + 1 ELSE turn END,
	moved = CASE WHEN phase = 'waiting' THEN sqlc.arg(now) ELSE moved END,
	updated = CASE WHEN phase = 'waiting' THEN sqlc.arg(now) ELSE updated END,
	attention = CASE WHEN phase = 'waiting' THEN '' ELSE attention END, notice = CASE WHEN phase = 'waiting' THEN '' ELSE notice END,
	phase = CASE WHEN phase = 'waiting' THEN 'ended' ELSE phase END
WHERE id = sqlc.arg(id) AND owner = sqlc.arg(owner) AND NOT hidden AND desired = 'run' AND phase <> 'ended'
	AND (CAST(sqlc.arg(statuses) AS TEXT) = '' OR replace(CAST(sqlc.arg(statuses) AS TEXT), '|' || status || '|', '') <> CAST(sqlc.arg(statuses) AS TEXT))
RETURNING *;

-- name: HideJob :one
UPDATE jobs SET hidden = TRUE WHERE id = $1 AND owner = $2 AND NOT hidden RETURNING *;

-- name: PlanRemoval :exec
-- See dispatch.Job.Removable.
UPDATE jobs SET removal_due = CAST(sqlc.arg(now) AS BIGINT), version = version + 1
WHERE id = sqlc.arg(id) AND owner = sqlc.arg(owner) AND NOT hidden AND attempt > 0 AND removal_due = 0 AND removal = '';

-- name: PlanRemovals :exec
-- Likewise, of jobs of a task.
UPDATE jobs SET removal_due = CAST(sqlc.arg(now) AS BIGINT), version = version + 1
WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND number > CAST(sqlc.arg(first) AS BIGINT) AND number <= CAST(sqlc.arg(last) AS BIGINT) AND attempt > 0 AND removal_due = 0 AND removal = '';

-- name: ListRemovable :many
-- Ended jobs, in order of id, that may be at their platforms.
SELECT id FROM jobs WHERE id > sqlc.arg(after) AND phase = 'ended' AND strays = '' AND attempt > 0 AND removal_due = 0 AND removal = '' AND (ref_id <> '' OR past <> '')
	AND (moved < CAST(sqlc.arg(before) AS BIGINT) OR hidden AND moved < CAST(sqlc.arg(discarded) AS BIGINT))
ORDER BY id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: PlanAgedRemoval :many
UPDATE jobs SET removal_due = CAST(sqlc.arg(now) AS BIGINT), version = version + 1
WHERE id = sqlc.arg(id) AND phase = 'ended' AND strays = '' AND attempt > 0 AND removal_due = 0 AND removal = ''
	AND (moved < CAST(sqlc.arg(before) AS BIGINT) OR hidden AND moved < CAST(sqlc.arg(discarded) AS BIGINT))
RETURNING account;

-- name: GetOwned :one
SELECT * FROM jobs WHERE id = $1 AND owner = $2 AND NOT hidden;

-- name: AwaitJob :many
-- A fresh status becomes due when it will be stale. A status with a time in the future is stale: the clock was set back.
UPDATE jobs SET awaited = checked < CAST(sqlc.arg(stale) AS BIGINT) OR checked > CAST(sqlc.arg(now) AS BIGINT), due = CASE
	WHEN checked > CAST(sqlc.arg(now) AS BIGINT) THEN CAST(sqlc.arg(now) AS BIGINT)
	WHEN checked >= CAST(sqlc.arg(stale) AS BIGINT) THEN checked + CAST(sqlc.arg(fresh) AS BIGINT)
	WHEN due <= sqlc.arg(now) THEN due
	WHEN checked + CAST(sqlc.arg(gap) AS BIGINT) <= sqlc.arg(now) THEN sqlc.arg(now)
	WHEN checked + CAST(sqlc.arg(gap) AS BIGINT) < due THEN checked + CAST(sqlc.arg(gap) AS BIGINT) ELSE due END
WHERE id = sqlc.arg(id) AND owner = sqlc.arg(owner) AND NOT hidden AND phase = 'started' AND NOT awaited AND tries < 2
	AND (checked < CAST(sqlc.arg(stale) AS BIGINT) OR checked > CAST(sqlc.arg(now) AS BIGINT) OR looks = 0 AND due > checked + CAST(sqlc.arg(fresh) AS BIGINT))
RETURNING account, awaited, due;

-- name: AwaitAll :many
-- Like AwaitJob.
UPDATE jobs SET awaited = checked < CAST(sqlc.arg(stale) AS BIGINT) OR checked > CAST(sqlc.arg(now) AS BIGINT), due = CASE
	WHEN checked > CAST(sqlc.arg(now) AS BIGINT) THEN CAST(sqlc.arg(now) AS BIGINT)
	WHEN checked >= CAST(sqlc.arg(stale) AS BIGINT) THEN checked + CAST(sqlc.arg(fresh) AS BIGINT)
	WHEN due <= sqlc.arg(now) THEN due
	WHEN checked + CAST(sqlc.arg(gap) AS BIGINT) <= sqlc.arg(now) THEN sqlc.arg(now)
	WHEN checked + CAST(sqlc.arg(gap) AS BIGINT) < due THEN checked + CAST(sqlc.arg(gap) AS BIGINT) ELSE due END
WHERE owner = sqlc.arg(owner) AND NOT hidden AND phase = 'started' AND NOT awaited AND tries < 2
	AND (checked < CAST(sqlc.arg(stale) AS BIGINT) OR checked > CAST(sqlc.arg(now) AS BIGINT) OR looks = 0 AND due > checked + CAST(sqlc.arg(fresh) AS BIGINT))
	AND (CAST(sqlc.arg(alone) AS BOOLEAN) AND task = 0 OR CAST(sqlc.arg(tasks) AS BOOLEAN) AND task <> 0 OR task <> 0 AND task = CAST(sqlc.arg(task) AS BIGINT))
RETURNING account, awaited, due;

-- name: CountAwaited :one
SELECT count(*) FROM jobs
WHERE owner = sqlc.arg(owner) AND NOT hidden AND phase = 'started' AND awaited
	AND (CAST(sqlc.arg(alone) AS BOOLEAN) AND task = 0 OR CAST(sqlc.arg(tasks) AS BOOLEAN) AND task <> 0 OR task <> 0 AND task = CAST(sqlc.arg(task) AS BIGINT)
		OR id = sqlc.arg(id));

-- name: ListTasks :many
SELECT tasks.id, tasks.owner, tasks.account, tasks.dimension, tasks.hidden, tasks.created, tasks.edited, tasks.paused, tasks.annotations, tasks.paused_for,
	tasks.budget, tasks.budget_unit, tasks.trial, CAST(tasks.trial > 0 AND EXISTS (SELECT 1 FROM jobs k WHERE k.task = tasks.id AND k.task <> 0
		AND k.number <= tasks.trial AND k.phase <> 'ended' AND NOT k.hidden) AS BOOLEAN) AS trying,
	CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(tasks.request) <= CAST(sqlc.arg(most) AS BIGINT) THEN tasks.request
		WHEN CAST(sqlc.arg(most) AS BIGINT) > 0 THEN substr(tasks.request, 1, CAST(CAST(sqlc.arg(most) AS BIGINT) AS INTEGER)) ELSE '' END AS TEXT) AS request,
	CAST(octet_length(tasks.request) AS BIGINT) AS size,
	CAST(COALESCE((SELECT j.updated FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND NOT j.hidden ORDER BY j.updated DESC LIMIT 1), 0) AS BIGINT) AS updated,
	CAST(COALESCE((SELECT j.moved FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND j.status = 'finished' AND NOT j.hidden ORDER BY j.moved DESC LIMIT 1), 0) AS BIGINT) AS finished,
	CAST(COALESCE((SELECT j.moved FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND j.status IN ('failed', 'canceled') AND NOT j.hidden ORDER BY j.moved DESC LIMIT 1), 0) AS BIGINT) AS stopped,
	CAST(COALESCE((SELECT definitions.told <> '' FROM definitions WHERE definitions.task = tasks.id AND definitions.job = 0), FALSE)
		OR tasks.spread > 0 AND COALESCE((SELECT MAX(h.told) <> '' FROM task_homes h WHERE h.task = tasks.id), FALSE) AS BOOLEAN) AS changed,
	accounts.hold, accounts.hold_attention
FROM tasks JOIN accounts ON accounts.id = tasks.account WHERE tasks.owner = sqlc.arg(owner) AND NOT tasks.hidden AND tasks.created <= CAST(sqlc.arg(created) AS BIGINT)
	AND (tasks.created < CAST(sqlc.arg(created) AS BIGINT) OR tasks.id < CAST(sqlc.arg(before) AS BIGINT))
	AND (CAST(sqlc.arg(of_accounts) AS TEXT) = '' OR replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || tasks.account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT)
		OR EXISTS (SELECT 1 FROM task_homes h WHERE h.task = tasks.id AND replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || h.account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT)))
	AND (CAST(sqlc.arg(since) AS BIGINT) = 0 OR EXISTS (SELECT 1 FROM jobs WHERE jobs.task = tasks.id AND jobs.task <> 0
		AND NOT jobs.hidden AND jobs.updated > CAST(sqlc.arg(since) AS BIGINT) UNION ALL SELECT 1 WHERE tasks.edited > CAST(sqlc.arg(since) AS BIGINT)))
ORDER BY tasks.created DESC, tasks.id DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListLabeledTasks :many
-- Like ListTasks, of one label.
SELECT tasks.id, tasks.owner, tasks.account, tasks.dimension, tasks.hidden, tasks.created, tasks.edited, tasks.paused, tasks.annotations, tasks.paused_for,
	tasks.budget, tasks.budget_unit, tasks.trial, CAST(tasks.trial > 0 AND EXISTS (SELECT 1 FROM jobs k WHERE k.task = tasks.id AND k.task <> 0
		AND k.number <= tasks.trial AND k.phase <> 'ended' AND NOT k.hidden) AS BOOLEAN) AS trying,
	CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(tasks.request) <= CAST(sqlc.arg(most) AS BIGINT) THEN tasks.request
		WHEN CAST(sqlc.arg(most) AS BIGINT) > 0 THEN substr(tasks.request, 1, CAST(CAST(sqlc.arg(most) AS BIGINT) AS INTEGER)) ELSE '' END AS TEXT) AS request,
	CAST(octet_length(tasks.request) AS BIGINT) AS size,
	CAST(COALESCE((SELECT j.updated FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND NOT j.hidden ORDER BY j.updated DESC LIMIT 1), 0) AS BIGINT) AS updated,
	CAST(COALESCE((SELECT j.moved FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND j.status = 'finished' AND NOT j.hidden ORDER BY j.moved DESC LIMIT 1), 0) AS BIGINT) AS finished,
	CAST(COALESCE((SELECT j.moved FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND j.status IN ('failed', 'canceled') AND NOT j.hidden ORDER BY j.moved DESC LIMIT 1), 0) AS BIGINT) AS stopped,
	CAST(COALESCE((SELECT definitions.told <> '' FROM definitions WHERE definitions.task = tasks.id AND definitions.job = 0), FALSE)
		OR tasks.spread > 0 AND COALESCE((SELECT MAX(h.told) <> '' FROM task_homes h WHERE h.task = tasks.id), FALSE) AS BOOLEAN) AS changed,
	accounts.hold, accounts.hold_attention
FROM task_labels l JOIN tasks ON tasks.id = l.task JOIN accounts ON accounts.id = tasks.account
WHERE l.owner = sqlc.arg(owner) AND l.name = sqlc.arg(name) AND l.value = sqlc.arg(value) AND l.created <= CAST(sqlc.arg(created) AS BIGINT)
	AND (l.created < CAST(sqlc.arg(created) AS BIGINT) OR l.task < CAST(sqlc.arg(before) AS BIGINT)) AND NOT tasks.hidden
	AND (CAST(sqlc.arg(of_accounts) AS TEXT) = '' OR replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || tasks.account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT)
		OR EXISTS (SELECT 1 FROM task_homes h WHERE h.task = tasks.id AND replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || h.account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT)))
	AND (CAST(sqlc.arg(since) AS BIGINT) = 0 OR EXISTS (SELECT 1 FROM jobs WHERE jobs.task = tasks.id AND jobs.task <> 0
		AND NOT jobs.hidden AND jobs.updated > CAST(sqlc.arg(since) AS BIGINT) UNION ALL SELECT 1 WHERE tasks.edited > CAST(sqlc.arg(since) AS BIGINT)))
ORDER BY l.created DESC, l.task DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: GetTask :one
SELECT tasks.id, tasks.owner, tasks.account, tasks.dimension, tasks.hidden, tasks.created, tasks.edited, tasks.paused, tasks.annotations, tasks.paused_for,
	tasks.budget, tasks.budget_unit, tasks.trial, CAST(tasks.trial > 0 AND EXISTS (SELECT 1 FROM jobs k WHERE k.task = tasks.id AND k.task <> 0
		AND k.number <= tasks.trial AND k.phase <> 'ended' AND NOT k.hidden) AS BOOLEAN) AS trying,
	CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(tasks.request) <= CAST(sqlc.arg(most) AS BIGINT) THEN tasks.request
		WHEN CAST(sqlc.arg(most) AS BIGINT) > 0 THEN substr(tasks.request, 1, CAST(CAST(sqlc.arg(most) AS BIGINT) AS INTEGER)) ELSE '' END AS TEXT) AS request,
	CAST(octet_length(tasks.request) AS BIGINT) AS size,
	CAST(COALESCE((SELECT j.updated FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND NOT j.hidden ORDER BY j.updated DESC LIMIT 1), 0) AS BIGINT) AS updated,
	CAST(COALESCE((SELECT j.moved FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND j.status = 'finished' AND NOT j.hidden ORDER BY j.moved DESC LIMIT 1), 0) AS BIGINT) AS finished,
	CAST(COALESCE((SELECT j.moved FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND j.status IN ('failed', 'canceled') AND NOT j.hidden ORDER BY j.moved DESC LIMIT 1), 0) AS BIGINT) AS stopped,
	CAST(EXISTS (SELECT 1 FROM definitions WHERE definitions.task = tasks.id AND definitions.job = 0 AND definitions.told <> '')
		OR tasks.spread > 0 AND EXISTS (SELECT 1 FROM task_homes h WHERE h.task = tasks.id AND h.told <> '') AS BOOLEAN) AS changed,
	accounts.hold, accounts.hold_attention
FROM tasks JOIN accounts ON accounts.id = tasks.account WHERE tasks.id = sqlc.arg(id) AND tasks.owner = sqlc.arg(owner) AND NOT tasks.hidden;

-- name: CountTasks :many
-- Of tasks that were created between two times.
SELECT c.task, c.status, CAST(SUM(c.jobs) AS BIGINT) AS n, CAST(SUM(c.progress) AS BIGINT) AS progress
FROM tasks JOIN task_counts c ON c.task = tasks.id
WHERE tasks.owner = sqlc.arg(owner) AND NOT tasks.hidden AND tasks.created >= CAST(sqlc.arg(first) AS BIGINT)
	AND tasks.created <= CAST(sqlc.arg(last) AS BIGINT)
GROUP BY c.task, c.status HAVING SUM(c.jobs) <> 0;

-- name: CountTask :many
SELECT task, status, CAST(SUM(jobs) AS BIGINT) AS n, CAST(SUM(progress) AS BIGINT) AS progress
FROM task_counts WHERE task = CAST(sqlc.arg(task) AS BIGINT) GROUP BY task, status HAVING SUM(jobs) <> 0;

-- name: ReviseTask :one
SELECT accounts.hold, accounts.hold_attention, accounts.hold_notice, accounts.wakes, tasks.edited,
	CAST(COALESCE((SELECT j.updated FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND NOT j.hidden ORDER BY j.updated DESC LIMIT 1), 0) AS BIGINT) AS updated,
	EXISTS (SELECT 1 FROM definitions WHERE definitions.task = tasks.id AND definitions.job = 0 AND definitions.told <> '') AS changed,
	CAST(CASE WHEN tasks.spread = 0 THEN 0 ELSE COALESCE((SELECT SUM(CAST(1 AS BIGINT) << CAST(h.number AS INTEGER)) FROM task_homes h
		WHERE h.task = tasks.id AND h.told <> ''), 0) END AS BIGINT) AS homes_changed
FROM tasks JOIN accounts ON accounts.id = tasks.account
WHERE tasks.id = sqlc.arg(id) AND tasks.owner = sqlc.arg(owner) AND NOT tasks.hidden;

-- name: SumTask :one
-- The sums of dispatch.SumUpdated and of dispatch.Job.Epoch.
SELECT CAST(COALESCE(SUM(jobs), 0) AS BIGINT) AS n, CAST(COALESCE(SUM(first), 0) AS BIGINT) AS first,
	CAST(COALESCE(SUM(second), 0) AS BIGINT) AS second, CAST(COALESCE(SUM(epochs), 0) AS BIGINT) AS epochs
FROM task_counts WHERE task = CAST(sqlc.arg(task) AS BIGINT);

-- name: CountTimeDependent :one
-- Of dispatch.Record.TimeDependent.
SELECT count(*) FROM jobs
WHERE owner = sqlc.arg(owner) AND NOT hidden AND phase = 'started' AND task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND looks = 0
	AND (tries > 0 OR awaited AND due <= CAST(sqlc.arg(late) AS BIGINT));

-- name: ListAttentions :many
-- Attentions of the jobs of tasks that were created between two times. The condition is given twice: the first form permits jobs_attention, and
-- for the second SQLite, which has not counted its rows, takes it rather than the index of all jobs of a task.
SELECT DISTINCT jobs.task, jobs.attention FROM tasks
	JOIN jobs ON jobs.task = tasks.id AND jobs.task <> 0 AND jobs.attention <> '' AND jobs.attention > '' AND NOT jobs.hidden
WHERE tasks.owner = sqlc.arg(owner) AND NOT tasks.hidden AND tasks.created >= CAST(sqlc.arg(first) AS BIGINT)
	AND tasks.created <= CAST(sqlc.arg(last) AS BIGINT);

-- name: ListTaskJobs :many
-- A value longer than most bytes, unless most is 0, is left out.
SELECT sqlc.embed(jobs), CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(requests.body) <= CAST(sqlc.arg(most) AS BIGINT) THEN requests.body ELSE '' END AS TEXT) AS body,
	CAST(octet_length(requests.body) AS BIGINT) AS size
FROM jobs JOIN requests ON requests.job = jobs.id
WHERE jobs.task = CAST(sqlc.arg(task) AS BIGINT) AND jobs.task <> 0 AND NOT jobs.hidden AND jobs.number > CAST(sqlc.arg(after) AS BIGINT)
ORDER BY jobs.number LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListTaskJobsOf :many
-- Like ListTaskJobs, of one status.
SELECT sqlc.embed(jobs), CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(requests.body) <= CAST(sqlc.arg(most) AS BIGINT) THEN requests.body ELSE '' END AS TEXT) AS body,
	CAST(octet_length(requests.body) AS BIGINT) AS size
FROM jobs JOIN requests ON requests.job = jobs.id
WHERE jobs.task = CAST(sqlc.arg(task) AS BIGINT) AND jobs.status = CAST(sqlc.arg(status) AS TEXT) AND jobs.task <> 0 AND NOT jobs.hidden
	AND jobs.number > CAST(sqlc.arg(after) AS BIGINT)
ORDER BY jobs.number LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListNumbersOf :many
-- The numbers of the jobs of ListTaskJobsOf.
SELECT number FROM jobs
WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND status = CAST(sqlc.arg(status) AS TEXT) AND task <> 0 AND NOT hidden AND number > CAST(sqlc.arg(after) AS BIGINT)
ORDER BY number LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListChangedJobs :many
-- Like ListTaskJobs. The plus keeps databases from reading all jobs by number instead of those that changed. Requests are joined to a page of them:
-- PostgreSQL, which expects a third of a task, would read the requests of all jobs.
WITH changed AS (
	SELECT j.id FROM jobs j WHERE j.task = CAST(sqlc.arg(task) AS BIGINT) AND j.task <> 0 AND NOT j.hidden AND j.updated > CAST(sqlc.arg(since) AS BIGINT)
		AND +j.number > CAST(sqlc.arg(after) AS BIGINT)
		AND (CAST(sqlc.arg(statuses) AS TEXT) = '' OR replace(CAST(sqlc.arg(statuses) AS TEXT), '|' || j.status || '|', '') <> CAST(sqlc.arg(statuses) AS TEXT))
		AND (CAST(sqlc.arg(of_accounts) AS TEXT) = '' OR replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || j.account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT))
	ORDER BY +j.number LIMIT CAST(sqlc.arg(n) AS BIGINT)
)
SELECT sqlc.embed(jobs), CAST(CASE WHEN CAST(sqlc.arg(most) AS BIGINT) = 0 OR octet_length(requests.body) <= CAST(sqlc.arg(most) AS BIGINT) THEN requests.body ELSE '' END AS TEXT) AS body,
	CAST(octet_length(requests.body) AS BIGINT) AS size
FROM changed JOIN jobs ON jobs.id = changed.id JOIN requests ON requests.job = jobs.id
ORDER BY jobs.number;

-- name: ListFinished :many
SELECT sqlc.embed(jobs), requests.body FROM jobs JOIN requests ON requests.job = jobs.id
WHERE jobs.task = CAST(sqlc.arg(task) AS BIGINT) AND jobs.task <> 0 AND jobs.status = 'finished' AND NOT jobs.hidden
	AND jobs.moved >= CAST(sqlc.arg(moved) AS BIGINT) AND (jobs.moved > CAST(sqlc.arg(moved) AS BIGINT) OR jobs.id > CAST(sqlc.arg(after) AS BIGINT))
ORDER BY jobs.moved, jobs.id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: HideTask :exec
UPDATE tasks SET hidden = TRUE WHERE id = $1;

-- name: CancelTaskJobs :execrows
-- Like CancelJob, of a range of numbers or, of these, only of those given between bars.
UPDATE jobs SET desired = 'canceled', version = version + 1,
	due = CASE WHEN phase NOT IN ('creating', 'starting') OR send_by + CAST(sqlc.arg(margin) AS BIGINT) <= sqlc.arg(now) THEN sqlc.arg(now)
		WHEN send_by + CAST(sqlc.arg(margin) AS BIGINT) < due THEN send_by + CAST(sqlc.arg(margin) AS BIGINT) ELSE due END,
	status = CASE WHEN phase = 'waiting' THEN 'canceled' ELSE status END,
	turn = CASE WHEN phase = 'waiting' THEN turn + 1 ELSE turn END,
	moved = CASE WHEN phase = 'waiting' THEN sqlc.arg(now) ELSE moved END,
	updated = CASE WHEN phase = 'waiting' THEN sqlc.arg(now) ELSE updated END,
	attention = CASE WHEN phase = 'waiting' THEN '' ELSE attention END, notice = CASE WHEN phase = 'waiting' THEN '' ELSE notice END,
	phase = CASE WHEN phase = 'waiting' THEN 'ended' ELSE phase END
WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND number > CAST(sqlc.arg(first) AS BIGINT) AND number <= CAST(sqlc.arg(last) AS BIGINT) AND NOT hidden AND desired = 'run' AND phase <> 'ended'
	AND (CAST(sqlc.arg(numbers) AS TEXT) = '' OR replace(CAST(sqlc.arg(numbers) AS TEXT), '|' || CAST(number AS TEXT) || '|', '') <> CAST(sqlc.arg(numbers) AS TEXT))
	AND (CAST(sqlc.arg(statuses) AS TEXT) = '' OR replace(CAST(sqlc.arg(statuses) AS TEXT), '|' || status || '|', '') <> CAST(sqlc.arg(statuses) AS TEXT));

-- name: MarkTask :exec
-- Nothing changes if the task is paused for the same reason, or not, already. The end of a pause ends a trial.
UPDATE tasks SET paused = sqlc.arg(paused), paused_for = sqlc.arg(paused_for), trial = CASE WHEN sqlc.arg(paused) THEN trial ELSE 0 END, edited = CAST(sqlc.arg(now) AS BIGINT)
WHERE id = sqlc.arg(id) AND (paused <> sqlc.arg(paused) OR paused_for <> sqlc.arg(paused_for));

-- name: LockBudget :one
-- Like LockTask, also for a task that its owner has deleted.
UPDATE tasks SET hidden = hidden WHERE id = $1 RETURNING account, paused, paused_for, budget, budget_unit, trial;

-- name: SetBudget :exec
UPDATE tasks SET budget = sqlc.arg(budget), budget_unit = sqlc.arg(budget_unit) WHERE id = sqlc.arg(id);

-- name: SumOpenRuns :one
-- Runs of a task with a budget whose costs are not known yet, see dispatch.Spending. The entries of unmetered are counted in its text; see the type
-- unmetered. In the text of an id each quotation mark follows a backslash.
SELECT CAST(COALESCE(SUM(CASE WHEN phase <> 'ended' AND phase <> 'waiting' THEN 1 ELSE 0 END), 0) AS BIGINT) AS running,
	CAST(COALESCE(SUM(CASE WHEN phase <> 'ended' AND phase <> 'waiting' AND costs IS NOT NULL THEN 1 ELSE 0 END), 0) AS BIGINT) AS reported,
	CAST(COALESCE(SUM(CASE WHEN phase <> 'ended' AND phase <> 'waiting' AND costs BETWEEN 0 AND 1e12 THEN costs ELSE 0 END), 0) AS DOUBLE PRECISION) AS costs,
	CAST(COALESCE(SUM((length(unmetered) - length(replace(unmetered, '"ended":', ''))) / 8
		- (length(unmetered) - length(replace(unmetered, '"priced":true', ''))) / 13), 0) AS BIGINT) AS unmetered
FROM jobs WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND budgeted AND (phase NOT IN ('waiting', 'ended') OR meter_due > 0);

-- name: PauseTaskJobs :exec
-- See dispatch.Job.idlePaused. Versions change where a visit may be about to submit the job, or to find that it waits again.
UPDATE jobs SET paused = TRUE,
	version = CASE WHEN phase IN ('waiting', 'creating') THEN version + 1 ELSE version END,
	updated = CASE WHEN phase = 'waiting' THEN CAST(sqlc.arg(now) AS BIGINT) ELSE updated END,
	attention = CASE WHEN phase = 'waiting' THEN 'paused' ELSE attention END, notice = CASE WHEN phase = 'waiting' THEN '' ELSE notice END,
	tries = CASE WHEN phase = 'waiting' THEN 0 ELSE tries END, refused = CASE WHEN phase = 'waiting' THEN 0 ELSE refused END,
	due = CASE WHEN phase = 'waiting' THEN CAST(sqlc.arg(never) AS BIGINT) ELSE due END
WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND number > CAST(sqlc.arg(first) AS BIGINT) AND number <= CAST(sqlc.arg(last) AS BIGINT) AND NOT hidden AND NOT paused AND (phase <> 'ended' OR status = 'failed');

-- name: ResumeTaskJobs :exec
UPDATE jobs SET paused = FALSE,
	version = CASE WHEN phase IN ('waiting', 'creating') THEN version + 1 ELSE version END,
	updated = CASE WHEN phase = 'waiting' THEN CAST(sqlc.arg(now) AS BIGINT) ELSE updated END,
	attention = CASE WHEN phase = 'waiting' THEN '' ELSE attention END, notice = CASE WHEN phase = 'waiting' THEN '' ELSE notice END,
	due = CASE WHEN phase = 'waiting' THEN CAST(sqlc.arg(now) AS BIGINT) ELSE due END
WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND number > CAST(sqlc.arg(first) AS BIGINT) AND number <= CAST(sqlc.arg(last) AS BIGINT) AND paused;

-- name: HideTaskJobs :exec
UPDATE jobs SET hidden = TRUE WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND number > CAST(sqlc.arg(first) AS BIGINT) AND number <= CAST(sqlc.arg(last) AS BIGINT) AND NOT hidden;

-- name: LockTask :one
-- Locks the task: its other changes come before or after, not in between.
UPDATE tasks SET hidden = hidden WHERE id = $1 AND owner = $2 AND NOT hidden RETURNING account, spread;

-- name: InsertHome :exec
INSERT INTO task_homes (task, account, number, platform, base, service_hash, service, document) VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: SetSpread :execrows
-- Also locks the task.
UPDATE tasks SET spread = CAST(sqlc.arg(spread) AS BIGINT) WHERE id = sqlc.arg(id) AND spread = CAST(sqlc.arg(seen) AS BIGINT);

-- name: ListHomes :many
SELECT account FROM task_homes WHERE task = CAST(sqlc.arg(task) AS BIGINT) ORDER BY number;

-- name: ListSpreadTasks :many
SELECT id FROM tasks WHERE spread > 1 AND NOT paused ORDER BY id;

-- name: GetTaskOwner :one
SELECT owner FROM tasks WHERE id = $1;

-- name: GetFirstHold :one
-- The hold that ends first of those of a task's homes.
SELECT CAST(COALESCE(a.hold, 0) AS BIGINT) AS hold, CAST(COALESCE(a.hold_attention, '') AS TEXT) AS hold_attention
FROM task_homes h LEFT JOIN accounts a ON a.id = h.account WHERE h.task = CAST(sqlc.arg(task) AS BIGINT) ORDER BY 1, h.number LIMIT 1;

-- name: ListSpread :many
-- The homes of tasks that spread their jobs and whose jobs had not all ended when that was last looked at. failures are those since the service last
-- finished a job of the owner there; three are enough to know.
SELECT tasks.id, tasks.owner, tasks.spread, h.account, h.base, h.service_hash,
	CAST(COALESCE(a.hold, 0) AS BIGINT) AS hold, CAST(COALESCE(a.hold_attention, '') AS TEXT) AS hold_attention, CAST(COALESCE(a.restored, 0) AS BIGINT) AS restored,
	EXISTS (SELECT 1 FROM operator_holds o WHERE o.scope = h.account OR o.scope = h.platform) AS operator,
	CAST(COALESCE((SELECT SUM(c.held) FROM account_counts c WHERE c.account = h.account), 0) AS BIGINT) AS held,
	CAST(COALESCE((SELECT SUM(l.waiting) FROM line_counts l WHERE l.account = h.account AND l.owner = tasks.owner AND l.task = tasks.id), 0) AS BIGINT) AS waiting,
	CAST((SELECT count(*) FROM jobs j WHERE j.task = tasks.id AND j.task <> 0 AND j.attention = 'retrying' AND j.attention <> '' AND NOT j.hidden AND j.account = h.account
		AND j.phase = 'waiting' AND j.desired = 'run' AND NOT j.paused AND j.begun = 0 AND j.strays = '' AND j.meter_due = 0) AS BIGINT) AS retrying,
	CAST((SELECT count(*) FROM (SELECT 1 FROM jobs f WHERE f.task = tasks.id AND f.task <> 0 AND f.status = 'failed' AND NOT f.hidden AND f.account = h.account
		AND f.moved > COALESCE((SELECT g.moved FROM jobs g WHERE g.owner = tasks.owner AND g.account = h.account AND g.service_hash = h.service_hash AND g.status = 'finished'
			ORDER BY g.moved DESC LIMIT 1), 0) LIMIT 3) AS few) AS BIGINT) AS failures,
	EXISTS (SELECT 1 FROM jobs k WHERE k.owner = tasks.owner AND k.task = tasks.id AND k.phase <> 'ended') AS live
FROM tasks JOIN task_homes h ON h.task = tasks.id LEFT JOIN accounts a ON a.id = h.account WHERE tasks.spread > 1 ORDER BY tasks.id, h.number;

-- name: MoveToHome :execrows
-- The conditions stand twice: another transaction may change a job after it was chosen. See dispatch.Job.MovedTo.
UPDATE jobs SET account = sqlc.arg(new_account), base = sqlc.arg(base), service_hash = sqlc.arg(service_hash), turn = turn + 1, tries = 0, past = '', seen = '', spent = 0, unit = '',
	attention = '', notice = '', updated = sqlc.arg(now), version = version + 1,
	due = CASE WHEN due > CAST(sqlc.arg(now) AS BIGINT) THEN CAST(sqlc.arg(now) AS BIGINT) ELSE due END
WHERE jobs.account = sqlc.arg(account) AND jobs.phase = 'waiting' AND jobs.desired = 'run' AND NOT jobs.hidden AND NOT jobs.paused AND jobs.begun = 0 AND jobs.strays = ''
	AND jobs.meter_due = 0 AND jobs.id IN (SELECT j.id FROM jobs j WHERE j.account = sqlc.arg(account) AND j.line = CAST(sqlc.arg(line) AS TEXT) AND j.phase = 'waiting' AND j.due < 253370764800000000
		AND j.desired = 'run' AND NOT j.hidden AND NOT j.paused AND j.begun = 0 AND j.strays = '' AND j.meter_due = 0
		AND (j.attention = 'retrying') = CAST(sqlc.arg(retrying) AS BOOLEAN)
		ORDER BY j.due, j.id LIMIT CAST(sqlc.arg(n) AS BIGINT) OFFSET CAST(sqlc.arg(skip) AS BIGINT))
	AND NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = CAST(sqlc.arg(account) AS TEXT) AND a.restored <> 0);

-- name: ListFailed :many
-- Skips jobs that another transaction is changing.
SELECT * FROM jobs WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND number > CAST(sqlc.arg(first) AS BIGINT) AND number <= CAST(sqlc.arg(last) AS BIGINT)
	AND NOT hidden AND phase = 'ended' AND status = 'failed' AND desired = 'run' AND NOT pruned
ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: ListFailedNumbers :many
-- Of the jobs that ListFailed would return.
SELECT id, number, bytes FROM jobs WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND NOT hidden AND phase = 'ended' AND status = 'failed' AND desired = 'run' AND NOT pruned
ORDER BY number;

-- name: LastNumber :one
SELECT CAST(COALESCE((SELECT number FROM jobs WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 ORDER BY number DESC LIMIT 1), 0) AS BIGINT) AS last;

-- name: LockAnyTask :one
-- Like LockTask, whoever owns it, and also if its owner has deleted it.
UPDATE tasks SET hidden = hidden WHERE id = $1 RETURNING owner, account, spread;

-- name: GetTaskChange :one
SELECT * FROM task_changes WHERE task = CAST(sqlc.arg(task) AS BIGINT);

-- name: WriteTaskChange :exec
INSERT INTO task_changes (task, owner, account, action, stops, statuses, numbers, last, done, jobs, bytes, touched)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (task) DO UPDATE SET done = excluded.done, jobs = excluded.jobs, bytes = excluded.bytes, touched = excluded.touched;

-- name: EndTaskChange :exec
DELETE FROM task_changes WHERE task = CAST(sqlc.arg(task) AS BIGINT);

-- name: ListTaskChanges :many
-- Those that nothing has continued since a time. One whose time is in the future was continued before the clock was set back.
SELECT task, owner, account, action FROM task_changes WHERE touched <= CAST(sqlc.arg(before) AS BIGINT) OR touched > CAST(sqlc.arg(now) AS BIGINT) ORDER BY task;

-- name: CountOwned :one
-- Jobs created within the period in which the time lies are counted one by one.
SELECT CAST(COALESCE((SELECT SUM(l.waiting + l.held) FROM owner_counts l WHERE l.owner = sqlc.arg(owner)
		AND (CAST(sqlc.arg(account) AS TEXT) = '' OR l.account = CAST(sqlc.arg(account) AS TEXT))), 0)
	+ COALESCE((SELECT SUM(t.jobs) FROM task_changes t WHERE t.owner = sqlc.arg(owner)
		AND (CAST(sqlc.arg(account) AS TEXT) = '' OR t.account = CAST(sqlc.arg(account) AS TEXT))), 0) AS BIGINT) AS live,
	CAST(COALESCE((SELECT SUM(p.jobs) FROM period_counts p WHERE p.owner = sqlc.arg(owner) AND p.period > CAST(sqlc.arg(period) AS BIGINT)
		AND (CAST(sqlc.arg(account) AS TEXT) = '' OR p.account = CAST(sqlc.arg(account) AS TEXT))), 0)
	+ (SELECT count(*) FROM jobs d WHERE d.owner = sqlc.arg(owner) AND d.created > CAST(sqlc.arg(since) AS BIGINT) AND d.created < CAST(sqlc.arg(until) AS BIGINT)
		AND (CAST(sqlc.arg(account) AS TEXT) = '' OR d.account = CAST(sqlc.arg(account) AS TEXT))) AS BIGINT) AS lately;

-- name: CountBytes :one
-- The bytes of the requests of an owner's unfinished jobs, and of those of unfinished synchronous runs. The shared request of a
-- task, with a process that was sent with it, counts once: hops from task to task in the index.
WITH RECURSIVE hop (task) AS (
	SELECT (SELECT a.task FROM jobs a WHERE a.owner = sqlc.arg(owner) AND a.task > 0 AND a.phase <> 'ended' ORDER BY a.task LIMIT 1)
	UNION ALL
	SELECT (SELECT b.task FROM jobs b WHERE b.owner = sqlc.arg(owner) AND b.task > hop.task AND b.phase <> 'ended' ORDER BY b.task LIMIT 1)
	FROM hop WHERE hop.task IS NOT NULL
)
SELECT CAST(COALESCE((SELECT SUM(c.bytes) FROM owner_counts c WHERE c.owner = sqlc.arg(owner)), 0)
	+ COALESCE((SELECT SUM(t.bytes) FROM task_changes t WHERE t.owner = sqlc.arg(owner)), 0)
	+ COALESCE((SELECT SUM(octet_length(tasks.request) + tasks.sent) FROM hop JOIN tasks ON tasks.id = hop.task), 0)
	+ COALESCE((SELECT SUM(octet_length(r.request)) FROM sync_runs r
		WHERE r.owner = sqlc.arg(owner) AND r.ended = 0 AND r.lapses > CAST(sqlc.arg(now) AS BIGINT)), 0) AS BIGINT);

-- name: CountShared :one
-- The bytes of a task's shared request, with a process that was sent with it; 0 if CountBytes already counts them, because one of the jobs has not ended.
SELECT CAST(CASE WHEN EXISTS (SELECT 1 FROM jobs WHERE jobs.owner = tasks.owner AND jobs.task = tasks.id AND jobs.phase <> 'ended') THEN 0
	ELSE octet_length(tasks.request) + tasks.sent END AS BIGINT) AS bytes
FROM tasks WHERE tasks.id = $1;

-- name: DuePlatforms :many
-- The platforms of due accounts without a holder, beginning with the longest due; without those that are full, each between bars. Hops from
-- platform to platform in the index accounts_of_platform: the cost depends on the number of platforms, not on that of accounts. Of a platform,
-- only accounts with a holder are passed over.
WITH RECURSIVE hop (platform) AS (
	SELECT CAST('' AS TEXT)
	UNION ALL
	SELECT (SELECT substr(b.id, 1, length(b.id) - length(ltrim(b.id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-'))) FROM accounts b
		WHERE b.due > 0 AND substr(b.id, 1, length(b.id) - length(ltrim(b.id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-'))) > hop.platform
		ORDER BY substr(b.id, 1, length(b.id) - length(ltrim(b.id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-'))) LIMIT 1)
	FROM hop WHERE hop.platform IS NOT NULL
)
SELECT CAST(p.platform AS TEXT) AS platform FROM (
	SELECT hop.platform, CASE WHEN replace(CAST(sqlc.arg(without) AS TEXT), '|' || hop.platform || '|', '') = CAST(sqlc.arg(without) AS TEXT)
		THEN (SELECT c.due FROM accounts c WHERE c.due > 0 AND substr(c.id, 1, length(c.id) - length(ltrim(c.id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-'))) = hop.platform
			AND c.due <= sqlc.arg(now) AND c.lease_until <= sqlc.arg(now)
			ORDER BY c.due, c.id LIMIT 1) END AS due
	FROM hop WHERE hop.platform <> ''
) AS p WHERE p.due IS NOT NULL ORDER BY p.due, p.platform;

-- name: Dequeue :many
-- A lease that was not released has expired. The platform is joined with '' because SQLite uses no index on
-- an expression for comparison with a cast.
WITH free AS (
	SELECT a.id FROM accounts a WHERE a.due > 0 AND a.due <= sqlc.arg(now) AND a.lease_until <= sqlc.arg(now)
		AND substr(a.id, 1, length(a.id) - length(ltrim(a.id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-'))) = CAST(sqlc.arg(platform) AS TEXT) || ''
	ORDER BY a.due, a.id LIMIT CAST(sqlc.arg(n) AS BIGINT) FOR UPDATE SKIP LOCKED
)
UPDATE accounts SET generation = generation + 1, lease_until = sqlc.arg(until),
	lapses = CASE WHEN lapsed > CAST(sqlc.arg(counts) AS BIGINT) THEN lapses ELSE 0 END + CASE WHEN lease_until > 0 THEN 1 ELSE 0 END,
	lapsed = CASE WHEN lease_until > 0 THEN CAST(sqlc.arg(now) AS BIGINT) ELSE lapsed END
WHERE id IN (SELECT free.id FROM free) RETURNING id, generation, lapses;

-- name: NextFree :one
-- The earliest future due time of accounts without a holder; 0 for none. The second condition permits the index; SQLite begins at the first one.
SELECT CAST(COALESCE((SELECT due FROM accounts WHERE due > CAST(sqlc.arg(now) AS BIGINT) AND due > 0 AND lease_until <= CAST(sqlc.arg(now) AS BIGINT) ORDER BY due, id LIMIT 1), 0) AS BIGINT);

-- name: NoteServed :exec
INSERT INTO served (platform, seen) VALUES (sqlc.arg(platform), sqlc.arg(now)) ON CONFLICT (platform) DO UPDATE SET seen = excluded.seen;

-- name: LastServed :one
SELECT CAST(COALESCE(max(seen), 0) AS BIGINT) FROM served;

-- name: MoveServed :exec
UPDATE served SET seen = sqlc.arg(now) WHERE seen > sqlc.arg(now);

-- name: MoveJobs :exec
UPDATE jobs SET due = due - CAST(sqlc.arg(back) AS BIGINT),
	send_by = CASE WHEN send_by > CAST(sqlc.arg(soon) AS BIGINT) THEN send_by - CAST(sqlc.arg(back) AS BIGINT) ELSE send_by END
WHERE due > CAST(sqlc.arg(soon) AS BIGINT) AND due < CAST(sqlc.arg(never) AS BIGINT);

-- name: MoveAccounts :exec
UPDATE accounts SET due = CASE WHEN due > CAST(sqlc.arg(soon) AS BIGINT) THEN due - CAST(sqlc.arg(back) AS BIGINT) ELSE due END,
	hold = CASE WHEN hold > CAST(sqlc.arg(soon) AS BIGINT) THEN hold - CAST(sqlc.arg(back) AS BIGINT) ELSE hold END
WHERE due > CAST(sqlc.arg(soon) AS BIGINT) OR hold > CAST(sqlc.arg(soon) AS BIGINT);

-- name: ListServed :many
SELECT platform FROM served WHERE seen > CAST(sqlc.arg(since) AS BIGINT) ORDER BY platform;

-- name: NextLapse :one
-- The earliest end of a lease, in case its holder died; 0 for none.
SELECT CAST(COALESCE((SELECT min(lease_until) FROM accounts WHERE lease_until > 0 AND due > 0 AND lease_until > sqlc.arg(now)), 0) AS BIGINT);

-- name: Renew :execrows
-- Also renews an expired lease if no other process took the account: then nothing happened in between.
UPDATE accounts SET lease_until = $1 WHERE id = $2 AND generation = $3;

-- name: RenewServing :one
-- Like Renew, for the intents of n creates. Returns how many slots the account has given away, including these.
UPDATE accounts SET lease_until = sqlc.arg(until), served = served + sqlc.arg(n)
WHERE id = sqlc.arg(id) AND generation = sqlc.arg(generation) RETURNING served;

-- name: ListTurnAccounts :many
SELECT DISTINCT account FROM turns;

-- name: Release :execrows
UPDATE accounts SET generation = generation + 1, lease_until = 0,
	due = CASE WHEN wakes <> sqlc.arg(seen) THEN CAST(sqlc.arg(now) AS BIGINT) ELSE CAST(sqlc.arg(due) AS BIGINT) END
WHERE id = sqlc.arg(id) AND generation = sqlc.arg(generation);

-- name: GetHold :one
SELECT hold, hold_attention, hold_notice FROM accounts WHERE id = $1;

-- name: GetOperatorNotice :one
SELECT CAST(COALESCE(max(notice), '') AS TEXT) AS notice FROM operator_holds WHERE scope = CAST(sqlc.arg(account) AS TEXT) OR scope = CAST(sqlc.arg(platform) AS TEXT);

-- name: NoteStarts :exec
-- A lagging start restarts the row of prompt starts; the worst lag is kept.
INSERT INTO platforms (name, answered, failed, failure, prompt_starts, start_lag)
VALUES (sqlc.arg(name), 0, 0, '', CAST(sqlc.arg(prompt) AS BIGINT), CAST(sqlc.arg(lag) AS BIGINT))
ON CONFLICT (name) DO UPDATE SET
	prompt_starts = CASE WHEN CAST(sqlc.arg(lagged) AS BOOLEAN) THEN 0 ELSE platforms.prompt_starts END + excluded.prompt_starts,
	start_lag = CASE WHEN excluded.start_lag > platforms.start_lag THEN excluded.start_lag ELSE platforms.start_lag END;

-- name: GetAgenda :one
-- The account with the observed promptness of its platform's starts, its slots in use, and when the first job of each step is due. One statement
-- sees all of it at one moment. Not min(): until PostgreSQL has statistics on new rows, it would read all of them for that.
SELECT a.wakes, a.hold, a.hold_attention, a.hold_notice, a.restored, COALESCE(p.prompt_starts, 0) AS prompt_starts, COALESCE(p.start_lag, 0) AS start_lag,
	CAST(COALESCE((SELECT max(h.notice) FROM operator_holds h WHERE h.scope = a.id OR h.scope = CAST(sqlc.arg(platform) AS TEXT)), '') AS TEXT) AS operator_notice,
	CAST(COALESCE((SELECT SUM(c.held) FROM account_counts c WHERE c.account = sqlc.arg(account)), 0) AS BIGINT) AS held,
	CAST(COALESCE((SELECT SUM(c.started) FROM account_counts c WHERE c.account = sqlc.arg(account)), 0) AS BIGINT) AS active,
	CAST(COALESCE((SELECT j.due FROM jobs j WHERE j.account = sqlc.arg(account) AND j.step = 'wait' ORDER BY j.due LIMIT 1), 0) AS BIGINT) AS waiting,
	CAST(COALESCE((SELECT j.due FROM jobs j WHERE j.account = sqlc.arg(account) AND j.step = 'start' ORDER BY j.due LIMIT 1), 0) AS BIGINT) AS start,
	CAST(COALESCE((SELECT j.due FROM jobs j WHERE j.account = sqlc.arg(account) AND j.step = 'cancel' ORDER BY j.due LIMIT 1), 0) AS BIGINT) AS cancel,
	CAST(COALESCE((SELECT j.due FROM jobs j WHERE j.account = sqlc.arg(account) AND j.step = 'settle' ORDER BY j.due LIMIT 1), 0) AS BIGINT) AS settle,
	CAST(COALESCE((SELECT j.due FROM jobs j WHERE j.account = sqlc.arg(account) AND j.step = 'learn' ORDER BY j.due LIMIT 1), 0) AS BIGINT) AS learn,
	CAST(COALESCE((SELECT j.due FROM jobs j WHERE j.account = sqlc.arg(account) AND j.step = 'wait' AND j.attention = 'application_unreachable'
		ORDER BY j.due LIMIT 1), 0) AS BIGINT) AS unprepared,
	CAST(COALESCE((SELECT j.meter_due FROM jobs j WHERE j.account = sqlc.arg(account) AND j.meter_due > 0 ORDER BY j.meter_due LIMIT 1), 0) AS BIGINT) AS meter,
	CAST(COALESCE((SELECT j.removal_due FROM jobs j WHERE j.account = sqlc.arg(account) AND j.removal_due > 0 AND j.phase = 'ended' AND j.strays = '' AND j.meter_due = 0
		ORDER BY j.removal_due LIMIT 1), 0) AS BIGINT) AS remove
FROM accounts a LEFT JOIN platforms p ON p.name = CAST(sqlc.arg(platform) AS TEXT) WHERE a.id = sqlc.arg(account);

-- name: ListDue :many
-- The cast keeps SQLite from comparing the parameter with the step of jobs_unprepared: it would prepare the statement anew for each other step.
SELECT * FROM jobs WHERE account = sqlc.arg(account) AND step = CAST(sqlc.arg(step) AS TEXT) AND due <= sqlc.arg(now)
ORDER BY due, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListUnmetered :many
SELECT * FROM jobs WHERE account = sqlc.arg(account) AND meter_due > 0 AND meter_due <= sqlc.arg(now)
ORDER BY meter_due, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListToRemove :many
SELECT * FROM jobs WHERE account = sqlc.arg(account) AND removal_due > 0 AND phase = 'ended' AND strays = '' AND meter_due = 0 AND removal_due <= sqlc.arg(now)
ORDER BY removal_due, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListUnprepared :many
SELECT * FROM jobs WHERE account = sqlc.arg(account) AND step = 'wait' AND attention = 'application_unreachable' AND due <= sqlc.arg(now)
ORDER BY due, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: CountHeld :one
SELECT CAST(COALESCE(SUM(held), 0) AS BIGINT) AS held FROM account_counts WHERE account = sqlc.arg(account);

-- name: CountFreed :one
-- See dispatch.Job.FreesSlot.
SELECT count(*) FROM jobs WHERE account = sqlc.arg(account) AND phase NOT IN ('waiting', 'ended') AND phase = 'started' AND status <> 'running'
	AND moved <= sqlc.arg(stalled);

-- name: ListLines :many
-- Without lines of tasks that a change under way stops.
-- Hops from line to line in the index: the cost depends on the number of lines that wait, not on that of their jobs, or of lines that are empty. due
-- and head belong to a line's first waiting job. Jobs that are due dispatch.Never are left out; the number is not a parameter because PostgreSQL would
-- not use an index for jobs that are due before it. Each value is a subquery, which is one search of an index, and no join: PostgreSQL, which expects
-- a hundred lines, would read all jobs for a join.
WITH RECURSIVE hop (head) AS (
	SELECT (SELECT c.id FROM jobs c WHERE c.account = sqlc.arg(account) AND c.phase = 'waiting' AND c.due < 253370764800000000 ORDER BY c.line, c.due, c.id LIMIT 1)
	UNION ALL
	SELECT (SELECT d.id FROM jobs d WHERE d.account = sqlc.arg(account) AND d.phase = 'waiting' AND d.due < 253370764800000000
		AND d.line > (SELECT e.line FROM jobs e WHERE e.id = hop.head) ORDER BY d.line, d.due, d.id LIMIT 1) FROM hop WHERE hop.head IS NOT NULL
), heads (head, line) AS MATERIALIZED (
	SELECT hop.head, (SELECT f.line FROM jobs f WHERE f.id = hop.head) FROM hop WHERE hop.head IS NOT NULL
), lines (head, line, own, owner, task) AS MATERIALIZED (
	SELECT h.head, h.line, rtrim(h.line, '0123456789'), substr(h.line, 1, length(rtrim(h.line, '0123456789')) - 1),
		CAST(substr(h.line, length(rtrim(h.line, '0123456789')) + 1) AS BIGINT) FROM heads h
)
SELECT CAST(l.owner AS TEXT) AS owner, CAST(l.task AS BIGINT) AS task, CAST(COALESCE((SELECT j.due FROM jobs j WHERE j.id = l.head), 0) AS BIGINT) AS due,
	CAST(l.head AS BIGINT) AS head,
	CAST(COALESCE((SELECT t.served FROM turns t WHERE t.account = sqlc.arg(account) AND t.line = l.line), 0) AS BIGINT) AS served,
	CAST(COALESCE((SELECT o.served FROM turns o WHERE o.account = sqlc.arg(account) AND o.line = l.own), 0) AS BIGINT) AS owner_served,
	CAST(COALESCE((SELECT SUM(w.waiting) FROM line_counts w WHERE w.account = sqlc.arg(account) AND w.owner = l.owner AND w.task = l.task), 0) AS BIGINT) AS waiting,
	CAST(COALESCE((SELECT SUM(h.held) FROM line_counts h WHERE h.account = sqlc.arg(account) AND h.owner = l.owner AND h.task = l.task), 0) AS BIGINT) AS held,
	CAST(COALESCE((SELECT SUM(u.held) FROM owner_counts u WHERE u.owner = l.owner AND u.account = sqlc.arg(account)), 0) AS BIGINT) AS owner_held
FROM lines l
WHERE NOT EXISTS (SELECT 1 FROM task_changes s WHERE s.task = l.task AND s.stops);

-- name: CountOwner :one
-- What an owner has at an account, without paused jobs.
SELECT CAST(COALESCE(SUM(waiting), 0) AS BIGINT) AS waiting, CAST(COALESCE(SUM(held), 0) AS BIGINT) AS held FROM line_counts
WHERE account = sqlc.arg(account) AND owner = sqlc.arg(owner);

-- name: CountQueues :many
SELECT account, CAST(SUM(waiting) AS BIGINT) AS n FROM account_counts GROUP BY account HAVING SUM(waiting) <> 0;

-- name: NoteAnswer :exec
INSERT INTO platforms (name, answered, failed, failure) VALUES ($1, $2, 0, '')
ON CONFLICT (name) DO UPDATE SET answered = excluded.answered;

-- name: NoteSilence :exec
INSERT INTO platforms (name, answered, failed, failure) VALUES (sqlc.arg(name), 0, sqlc.arg(failed), sqlc.arg(failure))
ON CONFLICT (name) DO UPDATE SET failed = excluded.failed, failure = excluded.failure;

-- name: ListPlatforms :many
SELECT * FROM platforms;

-- name: ListWaiting :many
-- Like ListLines, without jobs that are due dispatch.Never.
SELECT id FROM jobs WHERE account = sqlc.arg(account) AND line = sqlc.arg(line) AND phase = 'waiting' AND due < 253370764800000000
	AND (due, id) >= (sqlc.arg(first_due), sqlc.arg(first_id)) AND (due, id) <= (sqlc.arg(last_due), sqlc.arg(last_id))
ORDER BY due, id;

-- name: CountWaitingBefore :one
SELECT count(*) FROM jobs WHERE account = sqlc.arg(account) AND line = sqlc.arg(line) AND phase = 'waiting'
	AND due < 253370764800000000 AND (due, id) < (sqlc.arg(due), sqlc.arg(id));

-- name: RefHolder :one
-- The job of an account that has an identifier at the platform; 0: none.
SELECT CAST(COALESCE((SELECT max(id) FROM jobs WHERE account = sqlc.arg(account) AND ref_id = CAST(sqlc.arg(ref_id) AS TEXT) AND ref_id <> ''
	AND ref_base = sqlc.arg(ref_base)), 0) AS BIGINT);

-- name: Listable :many
SELECT * FROM jobs WHERE account = sqlc.arg(account) AND phase NOT IN ('waiting', 'ended') AND base = sqlc.arg(base)
	AND phase IN ('creating', 'started') ORDER BY due, id;

-- name: ListBases :many
SELECT DISTINCT base FROM jobs WHERE account = sqlc.arg(account);

-- name: ListRunning :many
SELECT * FROM jobs WHERE account = sqlc.arg(account) AND step = 'learn' ORDER BY due, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: LockRunTimes :one
-- Locks the run times of a service: other additions come before or after.
INSERT INTO run_times (platform, service, spans, updated) VALUES (sqlc.arg(platform), sqlc.arg(service), '[]', sqlc.arg(now))
ON CONFLICT (platform, service) DO UPDATE SET updated = excluded.updated RETURNING spans;

-- name: WriteRunTimes :exec
UPDATE run_times SET spans = sqlc.arg(spans) WHERE platform = sqlc.arg(platform) AND service = sqlc.arg(service);

-- name: GetRunTimes :one
SELECT spans FROM run_times WHERE platform = sqlc.arg(platform) AND service = sqlc.arg(service);

-- name: PurgeRunTimes :exec
DELETE FROM run_times WHERE updated < $1;

-- name: ListReady :many
SELECT * FROM jobs WHERE account = sqlc.arg(account) AND line = sqlc.arg(line) AND phase = 'waiting' AND due < 253370764800000000 AND due <= sqlc.arg(now)
ORDER BY due, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: GetJob :one
SELECT * FROM jobs WHERE id = $1;

-- name: GetRequest :one
SELECT jobs.task, jobs.number, jobs.account, jobs.names, requests.body, COALESCE(tasks.request, '') AS shared, COALESCE(tasks.dimension, '') AS dimension
FROM jobs JOIN requests ON requests.job = jobs.id LEFT JOIN tasks ON tasks.id = jobs.task
WHERE jobs.id = $1;

-- name: KeepResult :exec
INSERT INTO results (job, body) VALUES ($1, $2) ON CONFLICT (job) DO UPDATE SET body = excluded.body;

-- name: Hold :exec
-- An account waits for its user since the first of consecutive holds with that reason, less than a day apart.
INSERT INTO accounts (id, hold, hold_attention, hold_notice, sign_in_since)
VALUES (sqlc.arg(id), sqlc.arg(hold), sqlc.arg(hold_attention), sqlc.arg(hold_notice),
	CASE WHEN CAST(sqlc.arg(hold_attention) AS TEXT) = 'sign_in_required' THEN CAST(sqlc.arg(now) AS BIGINT) ELSE 0 END)
ON CONFLICT (id) DO UPDATE SET hold = excluded.hold, hold_attention = excluded.hold_attention,
	hold_notice = excluded.hold_notice,
	sign_in_since = CASE WHEN excluded.sign_in_since > 0 AND accounts.sign_in_since > 0
		AND accounts.hold > CAST(sqlc.arg(now) AS BIGINT) - 86400000000 THEN accounts.sign_in_since ELSE excluded.sign_in_since END;

-- name: ListSignInHolds :many
SELECT a.id FROM accounts a WHERE a.hold_attention = 'sign_in_required' AND a.hold > CAST(sqlc.arg(now) AS BIGINT)
	AND a.id IN (SELECT c.account FROM owner_counts c WHERE c.owner = sqlc.arg(owner));

-- name: FailWithoutSignIn :many
UPDATE jobs SET phase = 'ended', status = 'failed', attention = 'sign_in_required', notice = '', failure = sqlc.arg(failure),
	awaited = FALSE, turn = turn + 1, version = version + 1, moved = sqlc.arg(now), updated = sqlc.arg(now)
WHERE account = sqlc.arg(account) AND (phase = 'waiting' AND NOT paused OR phase = 'created' AND desired = 'run')
	AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = jobs.account AND a.sign_in_since BETWEEN 1 AND CAST(sqlc.arg(before) AS BIGINT))
RETURNING *;

-- name: LockTimetable :one
-- Locks the platform's schedule: other requests for a send time come before or after.
INSERT INTO timetables (platform) VALUES ($1) ON CONFLICT (platform) DO UPDATE SET platform = excluded.platform
RETURNING free, kept, seen;

-- name: WriteTimetable :exec
UPDATE timetables SET free = sqlc.arg(free), kept = sqlc.arg(kept), seen = sqlc.arg(seen) WHERE platform = sqlc.arg(platform);

-- name: GetBookings :one
SELECT reading_slot, acting_slot FROM accounts WHERE id = $1;

-- name: WriteBookings :exec
UPDATE accounts SET reading_slot = sqlc.arg(reading_slot), acting_slot = sqlc.arg(acting_slot) WHERE id = sqlc.arg(id);

-- name: VoidBookings :exec
UPDATE accounts SET reading_slot = 0, acting_slot = 0
WHERE reading_slot + acting_slot > 0 AND substr(id, 1, length(CAST(sqlc.arg(prefix) AS TEXT))) = CAST(sqlc.arg(prefix) AS TEXT);

-- name: NameInstallation :exec
INSERT INTO installation (one, name) VALUES (1, $1) ON CONFLICT (one) DO NOTHING;

-- name: MakeSetting :exec
-- The first value is kept.
INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING;

-- name: WriteSetting :exec
INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: GetSetting :one
SELECT value FROM settings WHERE name = $1;

-- name: RaiseIDs :execrows
-- Ids continue after the last id in use.
UPDATE ids SET last = CAST(sqlc.arg(last) AS BIGINT) WHERE name = sqlc.arg(name) AND last < CAST(sqlc.arg(last) AS BIGINT);

-- name: LastJob :one
-- Synchronous runs and unstarted jobs take their ids from the same sequence as jobs.
SELECT CAST(COALESCE(MAX(ids.id), 0) AS BIGINT) AS last FROM (SELECT MAX(jobs.id) AS id FROM jobs UNION ALL SELECT MAX(sync_runs.id) AS id FROM sync_runs
	UNION ALL SELECT MAX(unstarted.job) AS id FROM unstarted) AS ids;

-- name: LastTask :one
SELECT CAST(COALESCE(MAX(ids.id), 0) AS BIGINT) AS last FROM (SELECT MAX(tasks.id) AS id FROM tasks UNION ALL SELECT MAX(unstarted.task) AS id FROM unstarted) AS ids;

-- name: IDInUse :one
-- By a job or a task.
SELECT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = sqlc.arg(job) UNION ALL SELECT 1 FROM tasks WHERE tasks.id = CAST(sqlc.arg(task) AS BIGINT)) AS used;

-- name: GetInstallation :one
SELECT name FROM installation;

-- name: PurgeJobs :many
-- Skips jobs that another process is deleting.
DELETE FROM jobs WHERE jobs.id IN (SELECT j.id FROM jobs j WHERE j.hidden AND j.phase = 'ended' AND j.strays = '' AND j.removal_due = 0 AND j.moved < sqlc.arg(before)
	ORDER BY j.moved LIMIT CAST(sqlc.arg(n) AS BIGINT) FOR UPDATE SKIP LOCKED) RETURNING jobs.id;

-- name: ListEmptyTasks :many
SELECT id FROM tasks WHERE hidden AND tasks.id > sqlc.arg(after) AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.task = tasks.id AND jobs.task <> 0)
ORDER BY id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: PurgeTask :execrows
DELETE FROM tasks WHERE tasks.id = sqlc.arg(id) AND tasks.hidden AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.task = tasks.id AND jobs.task <> 0);

-- name: PurgeDefinition :exec
DELETE FROM definitions WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND job = sqlc.arg(job);

-- name: ListUnusedDocuments :many
SELECT hash FROM documents WHERE documents.hash > sqlc.arg(after) AND NOT EXISTS (SELECT 1 FROM definitions WHERE definitions.document = documents.hash)
ORDER BY hash LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: PurgeDocument :exec
DELETE FROM documents WHERE hash = sqlc.arg(hash) AND NOT EXISTS (SELECT 1 FROM definitions WHERE definitions.document = documents.hash);

-- name: PurgeKeys :execrows
DELETE FROM keys WHERE (keys.owner, keys.name) IN (SELECT k.owner, k.name FROM keys k WHERE k.created <= sqlc.arg(before)
	ORDER BY k.created LIMIT CAST(sqlc.arg(n) AS BIGINT)) AND keys.created <= sqlc.arg(before);

-- name: PurgeTokens :execrows
DELETE FROM tokens WHERE tokens.name IN (SELECT t.name FROM tokens t WHERE t.expires <= sqlc.arg(now)
	ORDER BY t.expires LIMIT CAST(sqlc.arg(n) AS BIGINT)) AND tokens.expires <= sqlc.arg(now);

-- name: PurgeSessions :execrows
DELETE FROM sessions WHERE sessions.id IN (SELECT s.id FROM sessions s WHERE s.ends <= sqlc.arg(now)
	ORDER BY s.ends LIMIT CAST(sqlc.arg(n) AS BIGINT)) AND sessions.ends <= sqlc.arg(now);

-- name: PurgeSyncRuns :execrows
DELETE FROM sync_runs WHERE sync_runs.id IN (SELECT r.id FROM sync_runs r WHERE r.created < sqlc.arg(before) AND r.lapses < sqlc.arg(before)
	ORDER BY r.created LIMIT CAST(sqlc.arg(n) AS BIGINT));

-- name: PurgePeriodCounts :execrows
DELETE FROM period_counts WHERE (period_counts.owner, period_counts.account, period_counts.period) IN (SELECT c.owner, c.account, c.period FROM period_counts c
	WHERE c.period < CAST(sqlc.arg(since) AS BIGINT) ORDER BY c.period LIMIT CAST(sqlc.arg(n) AS BIGINT));

-- name: ListEmptyLines :many
-- In order, after a row. SQLite compares more than the first column by the index only with expressions that are not casts.
SELECT account, owner, task FROM line_counts
WHERE (account, owner, task) > (CAST(sqlc.arg(account) AS TEXT) || '', CAST(sqlc.arg(owner) AS TEXT) || '', CAST(sqlc.arg(task) AS BIGINT) + 0) AND waiting = 0 AND held = 0
ORDER BY account, owner, task LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: PurgeLine :exec
DELETE FROM line_counts WHERE account = sqlc.arg(account) AND owner = sqlc.arg(owner) AND task = CAST(sqlc.arg(task) AS BIGINT)
	AND waiting = 0 AND held = 0;

-- name: ListEmptyStatuses :many
-- Like ListEmptyLines.
SELECT task, status FROM task_counts WHERE (task, status) > (CAST(sqlc.arg(task) AS BIGINT) + 0, CAST(sqlc.arg(status) AS TEXT) || '') AND jobs = 0 AND progress = 0 AND first = 0 AND second = 0 AND epochs = 0
ORDER BY task, status LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: PurgeStatus :exec
DELETE FROM task_counts WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND status = sqlc.arg(status)
	AND jobs = 0 AND progress = 0 AND first = 0 AND second = 0 AND epochs = 0;

-- name: ForgetTurns :execrows
DELETE FROM turns WHERE turns.account = sqlc.arg(account) AND turns.line IN (SELECT t.line FROM turns t WHERE t.account = sqlc.arg(account)
	AND t.served < sqlc.arg(served) LIMIT CAST(sqlc.arg(n) AS BIGINT)) AND turns.served < sqlc.arg(served);

-- name: ListAgedResults :many
SELECT r.job FROM results r JOIN jobs j ON j.id = r.job WHERE r.job > sqlc.arg(after) AND j.phase = 'ended' AND j.moved < CAST(sqlc.arg(before) AS BIGINT)
ORDER BY r.job LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: DeleteAgedResult :execrows
DELETE FROM results WHERE results.job = sqlc.arg(job)
	AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = results.job AND j.phase = 'ended' AND j.moved < CAST(sqlc.arg(before) AS BIGINT));

-- name: ListAgedJobs :many
-- Of no task. The first conditions are those of the index jobs_aging.
SELECT id FROM jobs WHERE task = 0 AND phase = 'ended' AND pruned = CAST(sqlc.arg(pruned) AS BOOLEAN) AND moved < CAST(sqlc.arg(before) AS BIGINT) AND strays = '' AND removal_due = 0
ORDER BY moved LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: MarkPruned :execrows
UPDATE jobs SET pruned = TRUE WHERE id = sqlc.arg(id) AND phase = 'ended' AND strays = '' AND moved < CAST(sqlc.arg(before) AS BIGINT) AND NOT pruned;

-- name: GetBody :one
SELECT body FROM requests WHERE job = $1;

-- name: WriteBody :exec
UPDATE requests SET body = sqlc.arg(body) WHERE job = sqlc.arg(job);

-- name: DeleteAged :execrows
DELETE FROM jobs WHERE id = sqlc.arg(id) AND phase = 'ended' AND strays = '' AND removal_due = 0 AND moved < CAST(sqlc.arg(before) AS BIGINT);

-- name: ListAgedTasks :many
SELECT t.id FROM tasks t WHERE NOT t.hidden AND t.id > sqlc.arg(after) AND t.created < CAST(sqlc.arg(before) AS BIGINT)
	AND NOT (t.pruned AND CAST(sqlc.arg(unpruned) AS BOOLEAN))
	AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.task = t.id AND j.task <> 0 AND (j.phase <> 'ended' OR j.strays <> '' OR j.removal_due > 0 OR j.moved >= CAST(sqlc.arg(before) AS BIGINT)))
ORDER BY t.id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListHiddenTasks :many
-- Those that may have aged jobs.
SELECT id FROM tasks WHERE hidden AND created < CAST(sqlc.arg(before) AS BIGINT) ORDER BY id;

-- name: ListJobIDs :many
SELECT id FROM jobs WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 ORDER BY number;

-- name: LockAgedTask :one
-- Like LockTask, whoever owns it.
UPDATE tasks SET hidden = hidden WHERE id = $1 AND NOT hidden RETURNING request;

-- name: HasYoungJob :one
SELECT EXISTS (SELECT 1 FROM jobs j WHERE j.task = CAST(sqlc.arg(task) AS BIGINT) AND j.task <> 0
	AND (j.phase <> 'ended' OR j.strays <> '' OR j.removal_due > 0 OR j.moved >= CAST(sqlc.arg(before) AS BIGINT))) AS young;

-- name: PruneTask :exec
UPDATE tasks SET request = sqlc.arg(request), pruned = TRUE WHERE id = sqlc.arg(id);

-- name: HasPrunedFailure :one
SELECT EXISTS (SELECT 1 FROM jobs j WHERE j.task = CAST(sqlc.arg(task) AS BIGINT) AND j.task <> 0 AND NOT j.hidden AND j.status = 'failed' AND j.pruned) AS pruned;

-- name: CountAged :one
-- Requests and jobs are those of no task. Of results, not of jobs, all are read: the order of a CROSS JOIN is kept by SQLite.
SELECT (SELECT count(*) FROM results r CROSS JOIN jobs j WHERE j.id = r.job AND j.phase = 'ended' AND j.moved < CAST(sqlc.arg(results) AS BIGINT)) AS results,
	(SELECT count(*) FROM jobs a WHERE a.task = 0 AND a.phase = 'ended' AND a.pruned = FALSE AND a.moved < CAST(sqlc.arg(requests) AS BIGINT) AND a.strays = '') AS requests,
	(SELECT count(*) FROM jobs b WHERE b.task = 0 AND b.phase = 'ended' AND b.pruned IN (FALSE, TRUE) AND b.moved < CAST(sqlc.arg(jobs) AS BIGINT) AND b.strays = '') AS jobs;

-- name: CountAgedTasks :one
-- Tasks whose jobs have all ended, by when the last of them did.
SELECT CAST(COALESCE(SUM(CASE WHEN a.moved < CAST(sqlc.arg(requests) AS BIGINT) THEN a.unpruned ELSE 0 END), 0) AS BIGINT) AS requests,
	CAST(COALESCE(SUM(CASE WHEN a.moved < CAST(sqlc.arg(jobs) AS BIGINT) THEN a.jobs ELSE 0 END), 0) AS BIGINT) AS jobs,
	CAST(COALESCE(SUM(CASE WHEN a.moved < CAST(sqlc.arg(jobs) AS BIGINT) THEN 1 ELSE 0 END), 0) AS BIGINT) AS tasks
FROM (SELECT max(j.moved) AS moved, SUM(CASE WHEN j.pruned THEN 0 ELSE 1 END) AS unpruned, count(*) AS jobs
	FROM jobs j JOIN tasks t ON t.id = j.task WHERE j.task <> 0 AND NOT t.hidden GROUP BY j.task
	HAVING SUM(CASE WHEN j.phase <> 'ended' OR j.strays <> '' THEN 1 ELSE 0 END) = 0) AS a;

-- name: CountUnended :one
SELECT CAST((SELECT count(*) FROM jobs j WHERE j.owner = sqlc.arg(owner) AND (j.phase <> 'ended' OR j.strays <> '' OR j.removal_due > 0))
	+ (SELECT count(*) FROM sync_runs r WHERE r.owner = sqlc.arg(owner) AND r.ended = 0 AND r.lapses > CAST(sqlc.arg(now) AS BIGINT)) AS BIGINT) AS n;

-- name: ListUnendedJobs :many
SELECT id FROM jobs WHERE owner = $1 AND phase <> 'ended' AND NOT hidden ORDER BY id;

-- name: ListOwnTasks :many
SELECT id FROM tasks WHERE owner = $1 AND NOT hidden ORDER BY id;

-- name: ListEndedJobs :many
SELECT id FROM jobs WHERE owner = sqlc.arg(owner) AND phase = 'ended' LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListAccounts :many
SELECT id FROM accounts ORDER BY id;

-- name: ListBetween :many
SELECT id, owner, created FROM jobs WHERE id BETWEEN sqlc.arg(first) AND sqlc.arg(last);

-- name: GetTaskOrigin :one
SELECT owner, created FROM tasks WHERE id = $1;

-- name: AddAccount :exec
INSERT INTO accounts (id) VALUES ($1) ON CONFLICT (id) DO NOTHING;

-- name: GetGrant :one
SELECT * FROM grants WHERE owner = $1 AND issuer = $2;

-- name: ListGrants :many
SELECT * FROM grants WHERE owner = $1 ORDER BY created, id;

-- name: KeepGrant :exec
INSERT INTO grants (id, owner, issuer, kind, key, sealed, created, renewed, expires)
VALUES (sqlc.arg(id), sqlc.arg(owner), sqlc.arg(issuer), sqlc.arg(kind), sqlc.arg(key), sqlc.arg(sealed), sqlc.arg(created), sqlc.arg(renewed),
	sqlc.arg(expires))
ON CONFLICT (owner, issuer) DO UPDATE SET id = excluded.id, kind = excluded.kind, key = excluded.key, sealed = excluded.sealed,
	created = excluded.created, renewed = excluded.renewed, expires = excluded.expires, version = 1;

-- name: RenewGrant :one
UPDATE grants SET key = sqlc.arg(key), sealed = sqlc.arg(sealed), renewed = sqlc.arg(renewed), expires = sqlc.arg(expires),
	version = version + 1
WHERE id = sqlc.arg(id) AND version = sqlc.arg(version) RETURNING *;

-- name: EraseGrant :execrows
DELETE FROM grants WHERE id = $1 AND owner = $2;

-- name: KeepRevocation :execrows
INSERT INTO revocations (id, owner_hash, issuer, kind, key, sealed, created)
SELECT g.id, CAST(sqlc.arg(owner_hash) AS TEXT), g.issuer, g.kind, g.key, g.sealed, CAST(sqlc.arg(now) AS BIGINT) FROM grants g
WHERE g.owner = sqlc.arg(owner) AND g.id = sqlc.arg(id) ON CONFLICT (id) DO NOTHING;

-- name: EraseRevocations :exec
DELETE FROM revocations WHERE owner_hash = $1 AND issuer = $2;

-- name: EraseWithdrawn :one
DELETE FROM grants WHERE id = $1 AND owner = $2 RETURNING issuer;

-- name: ListRevocations :many
SELECT * FROM revocations WHERE issuer = sqlc.arg(issuer) OR created < CAST(sqlc.arg(before) AS BIGINT) ORDER BY created, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: HasRevocation :one
SELECT EXISTS (SELECT 1 FROM revocations WHERE id = $1) AS waits;

-- name: EraseRevocation :exec
DELETE FROM revocations WHERE id = $1;

-- name: NoteWithdrawal :exec
INSERT INTO withdrawals (owner, issuer) VALUES ($1, $2) ON CONFLICT (owner, issuer) DO NOTHING;

-- name: EndWithdrawal :exec
DELETE FROM withdrawals WHERE owner = $1 AND issuer = $2;

-- name: HasWithdrawn :one
SELECT EXISTS (SELECT 1 FROM withdrawals WHERE owner = $1 AND issuer = $2) AS withdrawn;

-- name: KeepToken :exec
INSERT INTO tokens (name, owner, key, sealed, expires)
VALUES (sqlc.arg(name), sqlc.arg(owner), sqlc.arg(key), sqlc.arg(sealed), sqlc.arg(expires))
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, key = excluded.key, sealed = excluded.sealed, expires = excluded.expires
WHERE NOT CAST(sqlc.arg(longest) AS BOOLEAN) OR tokens.expires <= excluded.expires;

-- name: EraseToken :exec
DELETE FROM tokens WHERE name = $1 AND expires = $2;

-- name: EraseTokens :exec
DELETE FROM tokens WHERE owner = $1;

-- name: UseOnce :execrows
INSERT INTO tokens (name, key, sealed, expires) VALUES ($1, '', '', $2) ON CONFLICT (name) DO NOTHING;

-- name: FindToken :one
SELECT key, sealed, expires FROM tokens WHERE name = sqlc.arg(name) AND expires > sqlc.arg(now);

-- name: ListWorking :many
-- Accounts with an unfinished job.
SELECT a.id FROM accounts a
WHERE EXISTS (SELECT 1 FROM jobs j WHERE j.account = a.id AND j.step IN ('cancel', 'wait', 'settle', 'start', 'learn'))
ORDER BY a.id;

-- name: ListUsage :many
SELECT account, CAST(SUM(waiting + held) AS BIGINT) AS live, CAST(SUM(jobs) AS BIGINT) AS jobs,
	CAST(SUM(costs) AS DOUBLE PRECISION) AS costs, CAST(SUM(priced) AS BIGINT) AS priced
FROM owner_counts WHERE owner = sqlc.arg(owner) GROUP BY account HAVING SUM(jobs) > 0 ORDER BY account;

-- name: ListFinishedRuns :many
SELECT costs, unit, duration, task, send_by, moved FROM jobs
WHERE owner = sqlc.arg(owner) AND account = sqlc.arg(account) AND service_hash = sqlc.arg(service) AND status = 'finished'
ORDER BY moved DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListRunsOfTask :many
SELECT costs, unit, duration, task, send_by, moved FROM jobs
WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND status = 'finished' AND NOT hidden
ORDER BY moved DESC, id DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListFinishedRequests :many
-- Like ListFinishedRuns, with bodies of most bytes at most.
SELECT jobs.costs, jobs.unit, jobs.duration, jobs.task, jobs.send_by, jobs.moved,
	CAST(CASE WHEN octet_length(requests.body) <= CAST(sqlc.arg(most) AS BIGINT) THEN requests.body ELSE '' END AS TEXT) AS body
FROM jobs JOIN requests ON requests.job = jobs.id
WHERE jobs.owner = sqlc.arg(owner) AND jobs.account = sqlc.arg(account) AND jobs.service_hash = sqlc.arg(service) AND jobs.status = 'finished'
ORDER BY jobs.moved DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListUnderway :many
SELECT send_by FROM jobs WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND NOT hidden AND status IN ('submitted', 'queued', 'running');

-- name: GetTaskService :one
-- What all jobs of a task run, and for whom.
SELECT owner, account, service_hash FROM jobs WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 ORDER BY number LIMIT 1;

-- name: ListLedger :many
SELECT account, month, unit, CAST(SUM(costs) AS DOUBLE PRECISION) AS costs, CAST(SUM(runs) AS BIGINT) AS runs
FROM ledger WHERE owner = sqlc.arg(owner) GROUP BY account, month, unit ORDER BY month DESC, account, unit LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListLabelCosts :many
SELECT account, month, unit, value, CAST(SUM(costs) AS DOUBLE PRECISION) AS costs, CAST(SUM(runs) AS BIGINT) AS runs
FROM label_costs WHERE owner = sqlc.arg(owner) AND name = sqlc.arg(name) GROUP BY month, account, unit, value
ORDER BY month DESC, SUM(costs) DESC, account, unit, value LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: PurgeLabelCosts :execrows
DELETE FROM label_costs WHERE (label_costs.owner, label_costs.name, label_costs.month, label_costs.account, label_costs.unit, label_costs.value) IN
	(SELECT c.owner, c.name, c.month, c.account, c.unit, c.value FROM label_costs c
	WHERE c.month < CAST(sqlc.arg(month) AS TEXT) ORDER BY c.month LIMIT CAST(sqlc.arg(n) AS BIGINT));

-- name: ListMonth :many
SELECT unit, CAST(SUM(costs) AS DOUBLE PRECISION) AS costs FROM ledger
WHERE owner = sqlc.arg(owner) AND account = sqlc.arg(account) AND month = sqlc.arg(month) GROUP BY unit ORDER BY unit;

-- name: SumTaskCosts :many
SELECT unit, CAST(SUM(costs) AS DOUBLE PRECISION) AS costs, CAST(SUM(runs) AS BIGINT) AS runs FROM task_costs
WHERE task = CAST(sqlc.arg(task) AS BIGINT) GROUP BY unit ORDER BY unit;

-- name: PurgeTaskCosts :exec
DELETE FROM task_costs WHERE task = CAST(sqlc.arg(task) AS BIGINT);

-- name: BeginSyncRun :exec
INSERT INTO sync_runs (id, owner, account, request, status, lapses, created) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: RenewSyncRun :execrows
UPDATE sync_runs SET lapses = sqlc.arg(lapses) WHERE id = sqlc.arg(id) AND ended = 0;

-- name: EndSyncRun :exec
UPDATE sync_runs SET status = sqlc.arg(status), ref_base = sqlc.arg(ref_base), ref_id = sqlc.arg(ref_id), failure = sqlc.arg(failure),
	ended = sqlc.arg(now)
WHERE id = sqlc.arg(id) AND ended = 0;

-- name: ListSyncRuns :many
-- A run whose process was lost counts as ended when it lapsed.
SELECT * FROM (
	SELECT id, owner, account, request, ref_base, ref_id, failure, created,
		CAST(CASE WHEN ended = 0 AND lapses <= CAST(sqlc.arg(now) AS BIGINT) THEN 'unknown' ELSE status END AS TEXT) AS status,
		CAST(CASE WHEN ended = 0 AND lapses <= CAST(sqlc.arg(now) AS BIGINT) THEN lapses ELSE ended END AS BIGINT) AS ended
	FROM sync_runs
	WHERE owner = sqlc.arg(owner) AND created <= CAST(sqlc.arg(created) AS BIGINT)
		AND (created < CAST(sqlc.arg(created) AS BIGINT) OR id < CAST(sqlc.arg(before) AS BIGINT))
) AS runs
WHERE CASE WHEN ended = 0 THEN created ELSE ended END > CAST(sqlc.arg(since) AS BIGINT)
	AND (CAST(sqlc.arg(statuses) AS TEXT) = '' OR replace(CAST(sqlc.arg(statuses) AS TEXT), '|' || status || '|', '') <> CAST(sqlc.arg(statuses) AS TEXT))
	AND (CAST(sqlc.arg(of_accounts) AS TEXT) = '' OR replace(CAST(sqlc.arg(of_accounts) AS TEXT), '|' || account || '|', '') <> CAST(sqlc.arg(of_accounts) AS TEXT))
ORDER BY created DESC, id DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: CountSyncRuns :one
-- Like CountOwned.
SELECT (SELECT count(*) FROM (SELECT 1 FROM sync_runs l WHERE l.owner = sqlc.arg(owner) AND l.ended = 0 AND l.lapses > CAST(sqlc.arg(now) AS BIGINT)
		AND (CAST(sqlc.arg(account) AS TEXT) = '' OR l.account = CAST(sqlc.arg(account) AS TEXT)) LIMIT CAST(sqlc.arg(live) AS BIGINT)) AS a) AS live,
	(SELECT count(*) FROM (SELECT 1 FROM sync_runs d WHERE d.owner = sqlc.arg(owner) AND d.created > sqlc.arg(since)
		AND (CAST(sqlc.arg(account) AS TEXT) = '' OR d.account = CAST(sqlc.arg(account) AS TEXT)) LIMIT CAST(sqlc.arg(daily) AS BIGINT)) AS b) AS lately;

-- name: ListSyncUsage :many
SELECT account, CAST(SUM(CASE WHEN ended = 0 AND lapses > CAST(sqlc.arg(now) AS BIGINT) THEN 1 ELSE 0 END) AS BIGINT) AS live,
	CAST(SUM(CASE WHEN created > CAST(sqlc.arg(since) AS BIGINT) THEN 1 ELSE 0 END) AS BIGINT) AS lately, count(*) AS runs
FROM sync_runs WHERE owner = sqlc.arg(owner) GROUP BY account ORDER BY account;

-- name: SkipIDs :exec
UPDATE ids SET last = last + CAST(sqlc.arg(n) AS BIGINT);

-- name: MarkRestored :execrows
UPDATE accounts SET restored = sqlc.arg(restored), wakes = wakes + 1, due = sqlc.arg(now), hold = 0
WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.account = accounts.id);

-- name: EndRetries :exec
-- A later attempt of these jobs may have been submitted since the state that was restored.
UPDATE jobs SET retries = retried WHERE phase <> 'ended' AND retries > retried;

-- name: DoubtCreated :exec
-- A created job may have been started since.
UPDATE jobs SET phase = 'starting', turn = turn + 1, version = version + 1, looks = 0, unmoved = 0, seen = '', send_by = CAST(sqlc.arg(now) AS BIGINT),
	due = CAST(sqlc.arg(now) AS BIGINT), moved = CAST(sqlc.arg(now) AS BIGINT), updated = CAST(sqlc.arg(now) AS BIGINT), attention = 'submission_in_doubt', notice = ''
WHERE account = sqlc.arg(account) AND phase = 'created';

-- name: EndRestored :exec
UPDATE accounts SET restored = 0, hold = 0, hold_attention = '', hold_notice = '', wakes = wakes + 1, due = sqlc.arg(now) WHERE id = sqlc.arg(id);

-- name: KeepUnrecognized :exec
INSERT INTO unrecognized (account, ref_base, ref_id, tag, status, found) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (account, ref_base, ref_id) DO UPDATE SET tag = excluded.tag, status = excluded.status, found = excluded.found;

-- name: ListUnrecognized :many
SELECT * FROM unrecognized;

-- name: AddSession :exec
INSERT INTO sessions (id, owner, issuer, sid, key, sealed, created, ends)
VALUES (sqlc.arg(id), sqlc.arg(owner), sqlc.arg(issuer), sqlc.arg(sid), sqlc.arg(key), sqlc.arg(sealed), sqlc.arg(created), sqlc.arg(ends));

-- name: EndOldestSessions :exec
DELETE FROM sessions WHERE sessions.owner = sqlc.arg(owner) AND sessions.id NOT IN (
	SELECT s.id FROM sessions s WHERE s.owner = sqlc.arg(owner) ORDER BY s.created DESC, s.id DESC LIMIT CAST(sqlc.arg(n) AS BIGINT));

-- name: GetSession :one
SELECT * FROM sessions WHERE id = $1;

-- name: RenewSession :one
UPDATE sessions SET key = sqlc.arg(key), sealed = sqlc.arg(sealed), version = version + 1
WHERE id = sqlc.arg(id) AND version = sqlc.arg(version) RETURNING *;

-- name: ExtendSession :exec
UPDATE sessions SET ends = sqlc.arg(ends) WHERE id = sqlc.arg(id) AND ends < CAST(sqlc.arg(ends) AS BIGINT);

-- name: EndSession :exec
DELETE FROM sessions WHERE id = $1;

-- name: EndSessions :execrows
DELETE FROM sessions WHERE issuer = sqlc.arg(issuer)
	AND (CAST(sqlc.arg(sid) AS TEXT) = '' OR sid = CAST(sqlc.arg(sid) AS TEXT))
	AND (CAST(sqlc.arg(owner) AS TEXT) = '' OR owner = CAST(sqlc.arg(owner) AS TEXT));

-- name: EndAllSessions :exec
DELETE FROM sessions;

-- name: CountTaskAccepted :exec
INSERT INTO task_counts (task, status, jobs, progress, first, second, epochs)
VALUES (sqlc.arg(task), sqlc.arg(status), CAST(sqlc.arg(n) AS BIGINT), 0, sqlc.arg(first), sqlc.arg(second), 0)
ON CONFLICT (task, status) DO UPDATE SET jobs = task_counts.jobs + excluded.jobs, first = task_counts.first + excluded.first,
	second = task_counts.second + excluded.second;

-- name: CountLineAccepted :exec
INSERT INTO line_counts (account, owner, task, waiting, held)
VALUES (sqlc.arg(account), sqlc.arg(owner), sqlc.arg(task), CAST(sqlc.arg(n) AS BIGINT), 0)
ON CONFLICT (account, owner, task) DO UPDATE SET waiting = line_counts.waiting + excluded.waiting;

-- name: CountAccountAccepted :exec
INSERT INTO account_counts (account, waiting, held, started) VALUES (sqlc.arg(account), CAST(sqlc.arg(n) AS BIGINT), 0, 0)
ON CONFLICT (account) DO UPDATE SET waiting = account_counts.waiting + excluded.waiting;

-- name: CountOwnerAccepted :exec
INSERT INTO owner_counts (owner, account, waiting, held, bytes, jobs, costs, priced)
VALUES (sqlc.arg(owner), sqlc.arg(account), CAST(sqlc.arg(n) AS BIGINT), 0, sqlc.arg(bytes), CAST(sqlc.arg(n) AS BIGINT), 0, 0)
ON CONFLICT (owner, account) DO UPDATE SET waiting = owner_counts.waiting + excluded.waiting, bytes = owner_counts.bytes + excluded.bytes,
	jobs = owner_counts.jobs + excluded.jobs;

-- name: CountPeriodAccepted :exec
INSERT INTO period_counts (owner, account, period, jobs) VALUES (sqlc.arg(owner), sqlc.arg(account), sqlc.arg(period), CAST(sqlc.arg(n) AS BIGINT))
ON CONFLICT (owner, account, period) DO UPDATE SET jobs = period_counts.jobs + excluded.jobs;

-- name: CorrectLineCounts :execrows
-- Adds to the counts what they lack. One statement sees jobs and counts at one moment, so jobs may change meanwhile; only another correction may not.
INSERT INTO line_counts (account, owner, task, waiting, held)
SELECT d.account, d.owner, d.task, CAST(SUM(d.waiting) AS BIGINT), CAST(SUM(d.held) AS BIGINT) FROM (
	SELECT j.account, j.owner, j.task, SUM(CASE WHEN j.phase = 'waiting' AND NOT j.paused THEN 1 ELSE 0 END) AS waiting,
		SUM(CASE WHEN j.phase = 'waiting' THEN 0 ELSE 1 END) AS held
	FROM jobs j WHERE j.phase <> 'ended' GROUP BY j.account, j.owner, j.task
	UNION ALL SELECT c.account, c.owner, c.task, -c.waiting AS waiting, -c.held AS held FROM line_counts c
) AS d GROUP BY d.account, d.owner, d.task HAVING SUM(d.waiting) <> 0 OR SUM(d.held) <> 0
ON CONFLICT (account, owner, task) DO UPDATE SET waiting = line_counts.waiting + excluded.waiting, held = line_counts.held + excluded.held;

-- name: CorrectAccountCounts :execrows
-- Like CorrectLineCounts.
INSERT INTO account_counts (account, waiting, held, started)
SELECT d.account, CAST(SUM(d.waiting) AS BIGINT), CAST(SUM(d.held) AS BIGINT), CAST(SUM(d.started) AS BIGINT) FROM (
	SELECT j.account, SUM(CASE WHEN j.phase = 'waiting' AND NOT j.paused THEN 1 ELSE 0 END) AS waiting,
		SUM(CASE WHEN j.phase = 'waiting' THEN 0 ELSE 1 END) AS held, SUM(CASE WHEN j.phase = 'started' THEN 1 ELSE 0 END) AS started
	FROM jobs j WHERE j.phase <> 'ended' GROUP BY j.account
	UNION ALL SELECT c.account, -c.waiting AS waiting, -c.held AS held, -c.started AS started FROM account_counts c
) AS d GROUP BY d.account HAVING SUM(d.waiting) <> 0 OR SUM(d.held) <> 0 OR SUM(d.started) <> 0
ON CONFLICT (account) DO UPDATE SET waiting = account_counts.waiting + excluded.waiting, held = account_counts.held + excluded.held,
	started = account_counts.started + excluded.started;

-- name: CorrectOwnerCounts :execrows
-- Like CorrectLineCounts. Sums of costs may have rounding errors.
INSERT INTO owner_counts (owner, account, waiting, held, bytes, jobs, costs, priced)
SELECT d.owner, d.account, CAST(SUM(d.waiting) AS BIGINT), CAST(SUM(d.held) AS BIGINT), CAST(SUM(d.bytes) AS BIGINT), CAST(SUM(d.jobs) AS BIGINT),
	SUM(d.costs), CAST(SUM(d.priced) AS BIGINT) FROM (
	SELECT j.owner, j.account, SUM(CASE WHEN j.phase = 'waiting' THEN 1 ELSE 0 END) AS waiting,
		SUM(CASE WHEN j.phase IN ('waiting', 'ended') THEN 0 ELSE 1 END) AS held, SUM(CASE WHEN j.phase = 'ended' THEN 0 ELSE j.bytes END) AS bytes,
		count(*) AS jobs, SUM(CASE WHEN j.costs BETWEEN 0 AND 1e12 THEN j.costs ELSE 0 END) AS costs,
		SUM(CASE WHEN j.costs BETWEEN 0 AND 1e12 THEN 1 ELSE 0 END) AS priced
	FROM jobs j GROUP BY j.owner, j.account
	UNION ALL SELECT c.owner, c.account, -c.waiting AS waiting, -c.held AS held, -c.bytes AS bytes, -c.jobs AS jobs, -c.costs AS costs, -c.priced AS priced
	FROM owner_counts c
) AS d GROUP BY d.owner, d.account HAVING SUM(d.waiting) <> 0 OR SUM(d.held) <> 0 OR SUM(d.bytes) <> 0 OR SUM(d.jobs) <> 0 OR SUM(d.priced) <> 0
	OR abs(SUM(d.costs)) > 0.001
ON CONFLICT (owner, account) DO UPDATE SET waiting = owner_counts.waiting + excluded.waiting, held = owner_counts.held + excluded.held,
	bytes = owner_counts.bytes + excluded.bytes, jobs = owner_counts.jobs + excluded.jobs, costs = owner_counts.costs + excluded.costs,
	priced = owner_counts.priced + excluded.priced;

-- name: CorrectPeriodCounts :execrows
-- Like CorrectLineCounts, from a period on.
INSERT INTO period_counts (owner, account, period, jobs)
SELECT d.owner, d.account, d.period, CAST(SUM(d.jobs) AS BIGINT) FROM (
	SELECT j.owner, j.account, j.created / 300000000 AS period, count(*) AS jobs FROM jobs j
	WHERE j.created >= CAST(sqlc.arg(since) AS BIGINT) * 300000000 GROUP BY j.owner, j.account, j.created / 300000000
	UNION ALL SELECT c.owner, c.account, c.period, -c.jobs AS jobs FROM period_counts c WHERE c.period >= CAST(sqlc.arg(since) AS BIGINT)
) AS d GROUP BY d.owner, d.account, d.period HAVING SUM(d.jobs) <> 0
ON CONFLICT (owner, account, period) DO UPDATE SET jobs = period_counts.jobs + excluded.jobs;

-- name: CorrectTaskCounts :execrows
-- Like CorrectLineCounts.
INSERT INTO task_counts (task, status, jobs, progress, first, second, epochs)
SELECT d.task, d.status, CAST(SUM(d.jobs) AS BIGINT), CAST(SUM(d.progress) AS BIGINT), CAST(SUM(d.first) AS BIGINT), CAST(SUM(d.second) AS BIGINT),
	CAST(SUM(d.epochs) AS BIGINT) FROM (
	SELECT j.task, j.status, count(*) AS jobs,
		SUM(CASE WHEN j.progress BETWEEN 0 AND 100 THEN CAST(round(j.progress * 1000000) AS BIGINT) ELSE 0 END) AS progress,
		SUM(j.updated % 2147483647) AS first, SUM((j.updated % 1000003) * (j.updated % 1000003)) AS second, SUM(j.turn) AS epochs
	FROM jobs j WHERE j.task <> 0 AND NOT j.hidden GROUP BY j.task, j.status
	UNION ALL SELECT c.task, c.status, -c.jobs AS jobs, -c.progress AS progress, -c.first AS first, -c.second AS second, -c.epochs AS epochs FROM task_counts c
) AS d GROUP BY d.task, d.status
HAVING SUM(d.jobs) <> 0 OR SUM(d.progress) <> 0 OR SUM(d.first) <> 0 OR SUM(d.second) <> 0 OR SUM(d.epochs) <> 0
ON CONFLICT (task, status) DO UPDATE SET jobs = task_counts.jobs + excluded.jobs, progress = task_counts.progress + excluded.progress,
	first = task_counts.first + excluded.first, second = task_counts.second + excluded.second, epochs = task_counts.epochs + excluded.epochs;

-- name: ListSourceStates :many
SELECT name, revision, due FROM sources;

-- name: AddSource :exec
INSERT INTO sources (name) VALUES ($1) ON CONFLICT (name) DO NOTHING;

-- name: ClaimSource :one
UPDATE sources SET claim = claim + 1, due = sqlc.arg(until) WHERE name = sqlc.arg(name) AND due <= CAST(sqlc.arg(now) AS BIGINT) RETURNING *;

-- name: SaveSource :execrows
UPDATE sources SET documents = sqlc.arg(documents), read = sqlc.arg(read), failure = sqlc.arg(failure), revision = sqlc.arg(revision), due = sqlc.arg(due)
WHERE name = sqlc.arg(name) AND claim = sqlc.arg(claim);

-- name: GetSource :one
SELECT * FROM sources WHERE name = $1;

-- name: PurgeSources :exec
DELETE FROM sources WHERE due < sqlc.arg(before);

-- name: SaveProcess :exec
INSERT INTO processes (owner, id, body, bytes, updated) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (owner, id) DO UPDATE SET body = excluded.body, bytes = excluded.bytes, updated = excluded.updated;

-- name: CountOtherProcesses :one
SELECT COUNT(*) AS n, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes FROM processes WHERE owner = sqlc.arg(owner) AND id <> sqlc.arg(id);

-- name: GetProcess :one
SELECT * FROM processes WHERE owner = sqlc.arg(owner) AND id = sqlc.arg(id);

-- name: ListProcesses :many
SELECT * FROM processes WHERE owner = sqlc.arg(owner) AND id > sqlc.arg(after) ORDER BY id LIMIT CAST(sqlc.arg(most) AS BIGINT);

-- name: DeleteProcess :execrows
DELETE FROM processes WHERE owner = sqlc.arg(owner) AND id = sqlc.arg(id);

-- name: ClaimCensus :execrows
-- A lease that ends later than a new one would was taken before the clock was set back.
UPDATE census SET holder = sqlc.arg(holder), ends = CAST(sqlc.arg(ends) AS BIGINT)
WHERE holder = sqlc.arg(holder) OR ends <= sqlc.arg(now) OR ends > CAST(sqlc.arg(latest) AS BIGINT);

-- name: EndCensus :exec
UPDATE census SET ends = 0 WHERE holder = sqlc.arg(holder);

-- name: CensusUnfinished :many
-- Accounts with unfinished jobs, and their waiting jobs, by platform.
SELECT CAST(substr(a.account, 1, strpos(a.account, '/') - 1) AS TEXT) AS platform, CAST(SUM(a.waiting) AS BIGINT) AS waiting, count(*) AS accounts
FROM (SELECT account, SUM(waiting) AS waiting FROM account_counts GROUP BY account HAVING SUM(waiting) <> 0 OR SUM(held) <> 0) AS a GROUP BY 1;

-- name: CensusEnded :many
SELECT CAST(substr(account, 1, strpos(account, '/') - 1) AS TEXT) AS platform, CAST(SUM(jobs - waiting - held) AS BIGINT) AS ended
FROM owner_counts GROUP BY 1;

-- name: CensusHeld :many
SELECT CAST(substr(account, 1, strpos(account, '/') - 1) AS TEXT) AS platform, status, attention, count(*) AS n
FROM jobs WHERE phase NOT IN ('waiting', 'ended') GROUP BY 1, 2, 3;

-- name: CensusOldest :many
SELECT CAST(substr(account, 1, strpos(account, '/') - 1) AS TEXT) AS platform, CAST(min(created) AS BIGINT) AS created
FROM jobs WHERE phase = 'waiting' AND NOT paused GROUP BY 1;

-- name: CensusHolds :many
SELECT CAST(substr(id, 1, strpos(id, '/') - 1) AS TEXT) AS platform, hold_attention, count(*) AS n
FROM accounts WHERE hold > 0 AND hold > sqlc.arg(now) GROUP BY 1, 2;

-- name: CensusDue :many
-- Since when the account that waits longest for a visit is due.
SELECT CAST(substr(id, 1, strpos(id, '/') - 1) AS TEXT) AS platform, CAST(min(due) AS BIGINT) AS due
FROM accounts WHERE due > 0 AND due <= sqlc.arg(now) AND lease_until <= sqlc.arg(now) GROUP BY 1;

-- name: CensusBooked :many
SELECT platform, free FROM timetables;

-- name: CensusLimited :many
-- Tasks with unfinished jobs that start none for now, because their owner paused them ('') or for another reason.
SELECT t.paused_for, COUNT(*) AS n FROM tasks t WHERE t.paused AND NOT t.hidden
	AND (SELECT SUM(c.jobs) FROM task_counts c WHERE c.task = t.id AND c.status NOT IN ('finished', 'failed', 'canceled')) > 0
GROUP BY t.paused_for;

-- name: CensusDeliveries :one
-- Deliveries that are not over, and since when the one that waits longest for a process is due; 0: none waits. One that waits for an earlier one of the
-- same job, or for the end of the pause of its receiver, is not due. Hops from hook to hook as ListDueHooks does.
WITH RECURSIVE hop (hook) AS (
	SELECT (SELECT a.hook FROM deliveries a WHERE a.due > 0 ORDER BY a.hook LIMIT 1)
	UNION ALL
	SELECT (SELECT b.hook FROM deliveries b WHERE b.due > 0 AND b.hook > hop.hook ORDER BY b.hook LIMIT 1) FROM hop WHERE hop.hook IS NOT NULL
)
SELECT CAST(COALESCE(SUM(each.waiting), 0) AS BIGINT) AS waiting, CAST(COALESCE(MIN(each.due), 0) AS BIGINT) AS due FROM (
	SELECT (SELECT COUNT(*) FROM deliveries c WHERE c.hook = hooks.id AND c.due > 0) AS waiting,
		(SELECT d.due FROM deliveries d WHERE d.hook = hooks.id AND d.due > 0 AND d.due <= CAST(sqlc.arg(now) AS BIGINT) AND hooks.hold <= CAST(sqlc.arg(now) AS BIGINT)
			AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.hook = d.hook AND e.job = d.job AND e.epoch < d.epoch AND e.due + 0 > 0)
		ORDER BY d.due LIMIT 1) AS due
	FROM hop JOIN hooks ON hooks.id = hop.hook WHERE NOT hooks.gone
) AS each;

-- name: OldestDelivery :one
-- Since when the delivery that waits longest is to be sent; 0: none waits.
SELECT CAST(COALESCE((SELECT d.queued FROM deliveries d WHERE d.due > 0 AND EXISTS (SELECT 1 FROM hooks h WHERE h.id = d.hook)
	ORDER BY d.queued LIMIT 1), 0) AS BIGINT) AS queued;

-- name: CountPausedHooks :one
-- Of receivers that accept nothing. Nothing is sent by mail for a while after a mail, either.
SELECT COUNT(*) FROM hooks WHERE hold > 0 AND hold > CAST(sqlc.arg(now) AS BIGINT) AND failures > 0 AND NOT gone;

-- name: CountFailingHooks :one
-- Hooks none of whose messages arrive, by when they were to be sent, and those whose receiver wants nothing more. Reads all hooks.
SELECT CAST(COALESCE(SUM(CASE WHEN gone THEN 1 ELSE 0 END), 0) AS BIGINT) AS gone,
	CAST(COALESCE(SUM(CASE WHEN failures > 0 AND NOT gone AND EXISTS (SELECT 1 FROM deliveries d WHERE d.hook = hooks.id AND d.due > 0 AND d.queued < CAST(sqlc.arg(before) AS BIGINT))
		THEN 1 ELSE 0 END), 0) AS BIGINT) AS failing FROM hooks;

-- name: AddHook :execrows
-- Nothing is added if the owner has too many.
INSERT INTO hooks (id, owner, kind, url, statuses, key, sealed, created)
SELECT sqlc.arg(id), sqlc.arg(owner), sqlc.arg(kind), sqlc.arg(url), sqlc.arg(statuses), sqlc.arg(key), sqlc.arg(sealed), CAST(sqlc.arg(now) AS BIGINT)
WHERE (SELECT COUNT(*) FROM hooks h WHERE h.owner = sqlc.arg(owner) AND h.job = 0 AND h.task = 0) < CAST(sqlc.arg(most) AS BIGINT);

-- name: InsertHook :exec
-- That of one job or task.
INSERT INTO hooks (id, owner, kind, job, task, url, statuses, key, sealed, created)
VALUES (sqlc.arg(id), sqlc.arg(owner), sqlc.arg(kind), sqlc.arg(job), sqlc.arg(task), sqlc.arg(url), sqlc.arg(statuses), sqlc.arg(key), sqlc.arg(sealed), sqlc.arg(now));

-- name: GetHook :one
SELECT * FROM hooks WHERE id = sqlc.arg(id) AND owner = sqlc.arg(owner);

-- name: ListHooks :many
SELECT * FROM hooks WHERE owner = sqlc.arg(owner) AND job = sqlc.arg(job) AND task = CAST(sqlc.arg(task) AS BIGINT) ORDER BY created, id;

-- name: DeleteHook :execrows
DELETE FROM hooks WHERE id = sqlc.arg(id) AND owner = sqlc.arg(owner);

-- name: DeleteDeliveries :exec
DELETE FROM deliveries WHERE hook = $1;

-- name: ListDueHooks :many
-- Those that were served longest ago first, a bounded number of each owner. Hops from hook to hook in the index of due deliveries: hooks for which nothing waits cost nothing.
WITH RECURSIVE hop (hook) AS (
	SELECT (SELECT a.hook FROM deliveries a WHERE a.due > 0 ORDER BY a.hook LIMIT 1)
	UNION ALL
	SELECT (SELECT b.hook FROM deliveries b WHERE b.due > 0 AND b.hook > hop.hook ORDER BY b.hook LIMIT 1) FROM hop WHERE hop.hook IS NOT NULL
)
SELECT hooks.* FROM hooks JOIN (
	SELECT h.id, ROW_NUMBER() OVER (PARTITION BY h.owner ORDER BY h.ran, h.id) AS place
	FROM hop JOIN hooks h ON h.id = hop.hook WHERE NOT h.gone AND h.hold <= CAST(sqlc.arg(now) AS BIGINT)
		AND EXISTS (SELECT 1 FROM deliveries d WHERE d.hook = h.id AND d.due > 0 AND d.due <= CAST(sqlc.arg(now) AS BIGINT))
) ready ON ready.id = hooks.id
WHERE ready.place <= CAST(sqlc.arg(each) AS BIGINT) ORDER BY hooks.ran, hooks.id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ClaimDeliveries :many
-- An event of a job waits until those before it are settled; due + 0 has them found by the primary key, not among all that is due to the hook. due is
-- compared again for the second of two processes that claim at once. Rows are taken in the order of the index, so that a claim reads no more than it takes.
-- The end of a job for a subscriber, which is due a microsecond before it was queued, also waits for the first try to tell the job's inProgressUri.
UPDATE deliveries SET due = sqlc.arg(lease), tries = tries + 1, tried = CAST(sqlc.arg(now) AS BIGINT)
WHERE due + 0 > 0 AND due + 0 <= CAST(sqlc.arg(now) AS BIGINT) AND (hook, job, epoch, status) IN (
	SELECT d.hook, d.job, d.epoch, d.status FROM deliveries d
	WHERE d.hook = sqlc.arg(hook) AND d.due > 0 AND d.due <= CAST(sqlc.arg(now) AS BIGINT)
		AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.hook = d.hook AND e.job = d.job AND e.epoch < d.epoch AND e.due + 0 > 0)
		AND (d.due <> d.queued - 1 OR NOT EXISTS (SELECT 1 FROM deliveries p JOIN hooks h ON h.id = p.hook
			WHERE p.job = d.job AND p.status IN ('running', 'task_running') AND p.due + 0 > 0 AND p.answer = 0 AND p.notice = '' AND h.kind = 'ogc'))
	ORDER BY d.due LIMIT CAST(sqlc.arg(n) AS BIGINT))
RETURNING *;

-- name: SettleDelivery :exec
-- Of a try that is still the last.
UPDATE deliveries SET state = sqlc.arg(state), due = sqlc.arg(due), answer = sqlc.arg(answer), notice = sqlc.arg(notice)
WHERE hook = sqlc.arg(hook) AND job = sqlc.arg(job) AND epoch = sqlc.arg(epoch) AND status = sqlc.arg(status) AND tries = sqlc.arg(tries) AND due + 0 > 0;

-- name: SettleHook :exec
UPDATE hooks SET failures = sqlc.arg(failures), hold = sqlc.arg(hold), gone = sqlc.arg(gone), ran = sqlc.arg(now) WHERE id = sqlc.arg(id);

-- name: EndDeliveries :exec
UPDATE deliveries SET state = 'failed', due = 0, notice = sqlc.arg(notice) WHERE hook = sqlc.arg(hook) AND due > 0;

-- name: CountTests :one
-- Test deliveries of a hook after a time, and the epoch of the last.
SELECT COUNT(*) AS tests, CAST(COALESCE(max(epoch), 0) AS BIGINT) AS last FROM deliveries
WHERE hook = sqlc.arg(hook) AND job = 0 AND status = 'test' AND epoch > CAST(sqlc.arg(after) AS BIGINT);

-- name: AddTestDelivery :exec
INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
VALUES (sqlc.arg(hook), 0, sqlc.arg(epoch), 'test', 0, 0, sqlc.arg(now), sqlc.arg(now), sqlc.arg(now));

-- name: SendAgain :execrows
UPDATE deliveries SET state = 'waiting', due = sqlc.arg(now), queued = sqlc.arg(now)
WHERE hook = sqlc.arg(hook) AND job = sqlc.arg(job) AND epoch = sqlc.arg(epoch) AND status = sqlc.arg(status);

-- name: ReleaseHook :exec
-- Its receiver is tried at once, unless its last round ended after a time: then its pause stays.
UPDATE hooks SET gone = FALSE, hold = CASE WHEN ran <= CAST(sqlc.arg(before) AS BIGINT) THEN 0 ELSE hold END WHERE id = sqlc.arg(id);

-- name: ListDeliveries :many
SELECT * FROM deliveries WHERE hook = sqlc.arg(hook) ORDER BY happened DESC, job DESC, epoch DESC LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListOrphanedHooks :many
-- Those of jobs and tasks that are no more.
SELECT h.id FROM hooks h WHERE h.id > CAST(sqlc.arg(after) AS TEXT)
	AND (h.job <> 0 AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = h.job) OR h.task <> 0 AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = h.task))
ORDER BY h.id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: PurgeHook :exec
-- Ids of jobs and tasks are not used again, so that the hook is still an orphan.
DELETE FROM hooks WHERE id = $1;

-- name: PurgeDeliveries :execrows
DELETE FROM deliveries WHERE (hook, job, epoch, status) IN (SELECT d.hook, d.job, d.epoch, d.status FROM deliveries d
	WHERE d.queued <= CAST(sqlc.arg(before) AS BIGINT) ORDER BY d.queued LIMIT CAST(sqlc.arg(n) AS BIGINT));

-- name: ListMarkedTasks :many
-- Those that a change under way stops come after it, as if it had changed all jobs at once.
SELECT DISTINCT task FROM task_marks WHERE NOT EXISTS (SELECT 1 FROM task_changes s WHERE s.task = task_marks.task AND s.stops) ORDER BY task LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: TakeMarks :execrows
DELETE FROM task_marks WHERE task = CAST(sqlc.arg(task) AS BIGINT);

-- name: CountMarks :one
SELECT count(*) FROM task_marks WHERE task = CAST(sqlc.arg(task) AS BIGINT);

-- name: LockTold :one
-- What was sent to hooks about a task.
UPDATE tasks SET ends = ends WHERE id = $1 AND NOT hidden RETURNING told_share, ends, ended_as, paused_for, trial;

-- name: WriteTold :exec
UPDATE tasks SET told_share = sqlc.arg(told_share), ends = sqlc.arg(ends), ended_as = sqlc.arg(ended_as) WHERE id = sqlc.arg(id);

-- name: CountTrial :one
-- How many jobs of a trial have not ended, and the sum of dispatch.Job.Epoch of all.
SELECT CAST(COALESCE(SUM(CASE WHEN phase <> 'ended' THEN 1 ELSE 0 END), 0) AS BIGINT) AS running, CAST(COALESCE(SUM(turn), 0) AS BIGINT) AS epochs
FROM jobs WHERE task = CAST(sqlc.arg(task) AS BIGINT) AND task <> 0 AND NOT hidden AND number <= CAST(sqlc.arg(trial) AS BIGINT);

-- name: ListTaskHooks :many
-- The hooks that are notified of a task.
SELECT h.* FROM tasks t JOIN hooks h ON h.owner = t.owner AND h.job = 0 AND h.task IN (0, t.id)
WHERE t.id = CAST(sqlc.arg(task) AS BIGINT) AND NOT t.hidden AND NOT h.gone;

-- name: AddTaskDelivery :exec
INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due)
VALUES (sqlc.arg(hook), sqlc.arg(subject), sqlc.arg(epoch), sqlc.arg(status), sqlc.arg(task), 0, sqlc.arg(now), sqlc.arg(now), sqlc.arg(due))
ON CONFLICT (hook, job, epoch, status) DO NOTHING;

-- name: WriteOperatorHold :exec
INSERT INTO operator_holds (scope, notice, held_by, since) VALUES (sqlc.arg(scope), sqlc.arg(notice), sqlc.arg(held_by), sqlc.arg(now))
ON CONFLICT (scope) DO UPDATE SET notice = excluded.notice, held_by = excluded.held_by, since = excluded.since;

-- name: DeleteOperatorHold :execrows
DELETE FROM operator_holds WHERE scope = sqlc.arg(scope);

-- name: ListLivePlatforms :many
-- Platforms with jobs that have not ended.
SELECT CAST(substr(account, 1, strpos(account, '/') - 1) AS TEXT) AS platform FROM owner_counts
GROUP BY 1 HAVING SUM(waiting + held) > 0 ORDER BY 1;

-- name: HasAccount :one
SELECT EXISTS (SELECT 1 FROM accounts WHERE id = sqlc.arg(id)) AS known;

-- name: ListOperatorHolds :many
SELECT * FROM operator_holds ORDER BY scope;

-- name: WakeHeld :exec
-- Accounts of a scope that have unfinished jobs.
UPDATE accounts SET wakes = wakes + 1, due = sqlc.arg(now)
WHERE (id = CAST(sqlc.arg(scope) AS TEXT) OR substr(id, 1, length(CAST(sqlc.arg(scope) AS TEXT)) + 1) = CAST(sqlc.arg(scope) AS TEXT) || '/')
AND EXISTS (SELECT 1 FROM account_counts c WHERE c.account = accounts.id AND (c.waiting <> 0 OR c.held <> 0));

-- name: ListTroubled :many
-- Jobs at platforms that need attention, those first whose state is oldest.
SELECT * FROM jobs WHERE phase NOT IN ('waiting', 'ended') AND attention <> '' ORDER BY moved, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListSetAside :many
-- Jobs that were set aside and not retried since.
SELECT * FROM jobs WHERE attention = 'set_aside' AND NOT hidden ORDER BY moved, id LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: ListEvents :many
SELECT * FROM events WHERE job = sqlc.arg(job) ORDER BY at LIMIT CAST(sqlc.arg(n) AS BIGINT);

-- name: EventsBefore :one
-- Up to which time the oldest n events before a time were; 0: there is none.
SELECT CAST(COALESCE(max(e.at), 0) AS BIGINT) FROM (SELECT at FROM events WHERE at < sqlc.arg(before) ORDER BY at LIMIT CAST(sqlc.arg(n) AS BIGINT)) AS e;

-- name: PurgeEvents :execrows
DELETE FROM events WHERE at <= sqlc.arg(at);
