-- Live work only: waiting (pending {pending}, scheduled {scheduled}, retrying {retrying}) and processing ({processing}).
-- What has ended is in runnerq_history, so this table stays as small as the backlog. No foreign keys:
-- they would cost a lock per row.
--
-- fillfactor leaves room for the new version that a claim writes; vacuum comes after 2% of dead rows,
-- because a queue's table is mostly dead rows after a busy minute.

CREATE TABLE {schema}.runnerq_activities (
  id uuid PRIMARY KEY,
  token uuid,
  engine_id uuid,
  root_id uuid,
  parent_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  due timestamptz NOT NULL DEFAULT now(),
  claimed_at timestamptz,
  deadline timestamptz,
  timeout_ms bigint NOT NULL,
  queue_id int NOT NULL,
  type_id int NOT NULL,
  attempt int NOT NULL DEFAULT 0,
  max_attempts int NOT NULL,
  depth int NOT NULL DEFAULT 0,
  state smallint NOT NULL,
  priority smallint NOT NULL,
  retried smallint NOT NULL GENERATED ALWAYS AS (least(attempt, 7)) STORED,
  codec text NOT NULL,
  payload bytea NOT NULL,
  headers bytea,
  idempotency_key bytea,
  worker text,
  error bytea,
  -- The last attempt that was given back, by which a repeated acknowledgement is known.
  last_token uuid,
  last_digest bigint
) WITH (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

-- A lane (type, priority, retried) is one contiguous range, in the order in which it is claimed.
CREATE INDEX runnerq_activities_lane ON {schema}.runnerq_activities
  (type_id, priority, retried, due, id) WHERE state IN ({waiting});

-- Lists and counts of waiting work, by type and state, newest first.
CREATE INDEX runnerq_activities_waiting ON {schema}.runnerq_activities
  (type_id, state, id) WHERE state IN ({waiting});

-- Claims by owner: the reaper walks owners, not claims, and asks of each whether it is alive.
CREATE INDEX runnerq_activities_held ON {schema}.runnerq_activities
  (queue_id, engine_id, deadline) WHERE state = {processing};
