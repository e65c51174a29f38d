-- The tables of the SQLite backend. Ids are 16-byte blobs (a UUIDv7 sorts by its creation), instants are
-- milliseconds since 1970 UTC, structures are JSON.

-- Live work only: what can still be claimed or is being run. `token` is that of the current attempt and NULL
-- while nobody holds the row; the acked_* columns remember the last acknowledgement, to know a repetition.
CREATE TABLE runnerq_activities (
  row_id          INTEGER PRIMARY KEY,
  id              BLOB    NOT NULL UNIQUE,
  queue           TEXT    NOT NULL,
  type            TEXT    NOT NULL,
  state           TEXT    NOT NULL,
  priority        INTEGER NOT NULL,
  retried         INTEGER NOT NULL DEFAULT 0,
  due_ms          INTEGER NOT NULL,
  created_ms      INTEGER NOT NULL,
  attempt         INTEGER NOT NULL DEFAULT 0,
  max_attempts    INTEGER NOT NULL,
  timeout_ms      INTEGER NOT NULL,
  payload         BLOB    NOT NULL,
  codec           TEXT    NOT NULL,
  headers         BLOB    NOT NULL,
  idempotency_key TEXT,
  root_id         BLOB,
  parent_id       BLOB,
  depth           INTEGER NOT NULL DEFAULT 0,
  token           BLOB,
  engine_id       BLOB,
  worker_id       TEXT,
  claimed_ms      INTEGER,
  deadline_ms     INTEGER,
  error           BLOB,
  acked_token     BLOB,
  acked_digest    BLOB,
  acked_state     TEXT
);

-- The lanes: a claim walks contiguous ranges of it and never meets foreign types, future or running work. The
-- token, always NULL here, makes it cover the queries: without, each counted entry costs a look at its row.
CREATE INDEX runnerq_lanes ON runnerq_activities (queue, type, priority, retried, due_ms, id, token)
  WHERE token IS NULL;
CREATE INDEX runnerq_leases ON runnerq_activities (queue, deadline_ms) WHERE token IS NOT NULL;
-- Lists, newest first, and bounded counts.
CREATE INDEX runnerq_activities_by_state ON runnerq_activities (queue, state, id);
CREATE INDEX runnerq_activities_by_type ON runnerq_activities (queue, type, state);

-- Ended activities. They keep the last attempt's token (acked_token) to answer a repeated acknowledgement.
CREATE TABLE runnerq_history (
  row_id          INTEGER PRIMARY KEY,
  id              BLOB    NOT NULL UNIQUE,
  queue           TEXT    NOT NULL,
  type            TEXT    NOT NULL,
  state           TEXT    NOT NULL,
  priority        INTEGER NOT NULL,
  due_ms          INTEGER NOT NULL,
  created_ms      INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  max_attempts    INTEGER NOT NULL,
  timeout_ms      INTEGER NOT NULL,
  payload         BLOB    NOT NULL,
  codec           TEXT    NOT NULL,
  headers         BLOB    NOT NULL,
  idempotency_key TEXT,
  root_id         BLOB,
  parent_id       BLOB,
  depth           INTEGER NOT NULL,
  worker_id       TEXT,
  claimed_ms      INTEGER,
  finished_ms     INTEGER NOT NULL,
  result          BLOB,
  result_codec    TEXT    NOT NULL DEFAULT 'json',
  error           BLOB,
  acked_token     BLOB,
  acked_digest    BLOB,
  acked_state     TEXT
);

CREATE INDEX runnerq_history_by_state ON runnerq_history (queue, state, id);

CREATE TABLE runnerq_idempotency (
  queue       TEXT NOT NULL,
  type        TEXT NOT NULL,
  key         TEXT NOT NULL,
  activity_id BLOB NOT NULL,
  expires_ms  INTEGER,
  PRIMARY KEY (queue, type, key)
) WITHOUT ROWID;

-- What a row cannot tell of its past: retries, snoozes, hand-backs, lost claims, operator actions.
CREATE TABLE runnerq_events (
  seq         INTEGER PRIMARY KEY,
  activity_id BLOB NOT NULL,
  event       BLOB NOT NULL
);

CREATE INDEX runnerq_events_of_activity ON runnerq_events (activity_id, seq);

-- Counts what made work claimable, per queue, so that a process which notices a commit of another can tell new
-- work from a heartbeat: without, every heartbeat of N engines would make all N of them look for work.
CREATE TABLE runnerq_work (
  queue   TEXT    NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL
) WITHOUT ROWID;

-- The live stream between processes: written only while somebody watches, kept for a minute. AUTOINCREMENT,
-- so that a watcher sees by a jump of the numbers that it missed some.
CREATE TABLE runnerq_transitions (
  seq   INTEGER PRIMARY KEY AUTOINCREMENT,
  queue TEXT    NOT NULL,
  at_ms INTEGER NOT NULL,
  event BLOB    NOT NULL
);

CREATE TABLE runnerq_watchers (
  watcher  BLOB    NOT NULL PRIMARY KEY,
  queue    TEXT    NOT NULL,
  until_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE runnerq_engines (
  queue        TEXT    NOT NULL,
  engine_id    BLOB    NOT NULL,
  info         BLOB    NOT NULL,
  worker_id    TEXT    NOT NULL,
  state        TEXT    NOT NULL,
  busy         INTEGER NOT NULL DEFAULT 0,
  cordoned     INTEGER NOT NULL DEFAULT 0,
  counters     BLOB    NOT NULL,
  started_ms   INTEGER NOT NULL,
  heartbeat_ms INTEGER NOT NULL,
  PRIMARY KEY (queue, engine_id)
) WITHOUT ROWID;

CREATE TABLE runnerq_decisions (
  seq      INTEGER PRIMARY KEY,
  queue    TEXT    NOT NULL,
  pool     TEXT    NOT NULL,
  at_ms    INTEGER NOT NULL,
  decision BLOB    NOT NULL
);

CREATE INDEX runnerq_decisions_of_queue ON runnerq_decisions (queue, at_ms);

CREATE TABLE runnerq_pods (
  queue TEXT NOT NULL,
  pool  TEXT NOT NULL,
  name  TEXT NOT NULL,
  pod   BLOB NOT NULL,
  PRIMARY KEY (queue, pool, name)
) WITHOUT ROWID;
