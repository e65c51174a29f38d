-- Which migrations this schema has seen.
SELECT version, name, checksum, applied_at FROM {schema}.runnerq_migrations ORDER BY version
