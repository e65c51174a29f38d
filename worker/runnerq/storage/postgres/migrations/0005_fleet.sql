-- Engines (one row per process, rewritten by each heartbeat), and what operator, workers and console
-- tell each other.

CREATE TABLE {schema}.runnerq_engines (
  engine_id uuid PRIMARY KEY,
  started_at timestamptz NOT NULL DEFAULT now(),
  heartbeat_at timestamptz NOT NULL DEFAULT now(),
  queue_id int NOT NULL,
  pid int NOT NULL,
  slots int NOT NULL,
  busy int NOT NULL DEFAULT 0,
  state smallint NOT NULL,
  cordoned boolean NOT NULL DEFAULT false,
  worker text NOT NULL,
  host text NOT NULL,
  pool text NOT NULL,
  pod text NOT NULL,
  build_id text NOT NULL,
  version text NOT NULL,
  types text[] NOT NULL,
  counters bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

CREATE INDEX runnerq_engines_queue ON {schema}.runnerq_engines (queue_id);

CREATE TABLE {schema}.runnerq_decisions (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  queue_id int NOT NULL,
  from_replicas int NOT NULL,
  to_replicas int NOT NULL,
  pool text NOT NULL,
  reason text NOT NULL,
  summary text NOT NULL,
  detail bytea NOT NULL
);

CREATE INDEX runnerq_decisions_newest ON {schema}.runnerq_decisions (queue_id, at DESC, seq DESC);

CREATE TABLE {schema}.runnerq_pods (
  queue_id int NOT NULL,
  pool text NOT NULL,
  name text NOT NULL,
  phase text NOT NULL,
  detail text NOT NULL,
  since timestamptz NOT NULL,
  PRIMARY KEY (queue_id, pool, name)
);

-- Switches of a queue that hold until a time: who watches its live stream ('stream').
CREATE TABLE {schema}.runnerq_controls (
  queue_id int NOT NULL,
  name text NOT NULL,
  until timestamptz NOT NULL,
  PRIMARY KEY (queue_id, name)
) WITH (fillfactor = 50);
