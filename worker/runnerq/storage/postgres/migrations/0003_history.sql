-- Activities that have ended, with result or error, in one partition per day of their id (UUIDv7): a
-- look-up by id touches one partition, ids are unique across all of them, and retention can drop a day.
-- No DEFAULT partition: a partition could then not be detached without blocking.
-- Partitions are made by the code, some days ahead and when an id asks for one.

CREATE TABLE {schema}.runnerq_history (
  id uuid NOT NULL,
  token uuid,
  root_id uuid,
  parent_id uuid,
  created_at timestamptz NOT NULL,
  due timestamptz NOT NULL,
  claimed_at timestamptz,
  finished_at timestamptz NOT NULL DEFAULT now(),
  timeout_ms bigint NOT NULL,
  run_ms bigint,
  queue_id int NOT NULL,
  type_id int NOT NULL,
  attempt int NOT NULL,
  max_attempts int NOT NULL,
  depth int NOT NULL,
  state smallint NOT NULL,
  priority smallint NOT NULL,
  -- How the finishing attempt was acknowledged; null when its owner was lost.
  outcome smallint,
  codec text NOT NULL,
  payload bytea NOT NULL,
  headers bytea,
  idempotency_key bytea,
  worker text,
  result bytea,
  result_codec text,
  error bytea,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);

-- Lists and counts by type and final state, newest first.
CREATE INDEX runnerq_history_ended ON {schema}.runnerq_history (type_id, state, id);

-- The smallest id (UUIDv7) of a day: its first millisecond in the first 48 bits.
CREATE FUNCTION {schema}.runnerq_first_id(day date) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
  SELECT (lpad(to_hex(extract(epoch FROM day)::bigint * 1000), 12, '0') || repeat('0', 20))::uuid
$body$;

-- Makes the partition of one day, if it is not there. Made apart and then attached: that blocks neither
-- reads nor inserts, CREATE TABLE .. PARTITION OF would. Runs with its owner's rights, so that workers
-- need none to create tables; hence the bounds on the day.
CREATE FUNCTION {schema}.runnerq_add_partition(day date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  partition text := 'runnerq_history_' || to_char(day, 'YYYYMMDD');
  home text := (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE c.oid = '{schema_literal}.runnerq_history'::regclass);
  today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  IF day NOT BETWEEN today - 3 AND today + 31 THEN
    RAISE EXCEPTION 'no partition for %: it is too far from today, %', day, today;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended(home || '.runnerq_history', 0));
  IF to_regclass(format('%I.%I', home, partition)) IS NOT NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('CREATE TABLE %I.%I (LIKE %I.runnerq_history INCLUDING ALL)', home, partition, home);
  EXECUTE format(
    'ALTER TABLE %I.runnerq_history ATTACH PARTITION %I.%I FOR VALUES FROM (%L) TO (%L)',
    home, home, partition,
    {schema}.runnerq_first_id(day), {schema}.runnerq_first_id(day + 1));
  RETURN true;
END
$body$;
