-- Idempotency keys: who holds (queue, type, key). A type belongs to one queue. The digest (128 bits of
-- the key's hash) makes keys of any length and content fit the index; the key itself stands in the activity.

CREATE TABLE {schema}.runnerq_idempotency (
  type_id int NOT NULL,
  digest uuid NOT NULL,
  activity_id uuid NOT NULL,
  expires_at timestamptz,
  PRIMARY KEY (type_id, digest)
);

CREATE INDEX runnerq_idempotency_expiry ON {schema}.runnerq_idempotency (expires_at)
  WHERE expires_at IS NOT NULL;

-- What an activity's row cannot tell: attempts that ended without ending the activity, and what people did.
CREATE TABLE {schema}.runnerq_events (
  activity_id uuid NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  at timestamptz NOT NULL DEFAULT now(),
  claimed_at timestamptz,
  ready_at timestamptz,
  run_ms bigint,
  attempt int NOT NULL,
  kind smallint NOT NULL,
  state smallint NOT NULL,
  worker text,
  error bytea,
  actor text,
  PRIMARY KEY (activity_id, seq)
);
