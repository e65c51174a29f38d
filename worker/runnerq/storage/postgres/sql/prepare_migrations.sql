-- Where the record of applied migrations lives; made by the first of them. CREATE SCHEMA IF NOT EXISTS
-- asks for the right to create even where the schema exists, which a careful admin does not give.
DO $body$
BEGIN
  IF to_regnamespace('{schema_literal}') IS NULL THEN
    CREATE SCHEMA {schema};
  END IF;
END
$body$;
CREATE TABLE IF NOT EXISTS {schema}.runnerq_migrations (
  version int PRIMARY KEY,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)
