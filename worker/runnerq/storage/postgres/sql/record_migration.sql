-- Note that a migration was applied, in its own transaction.
INSERT INTO {schema}.runnerq_migrations (version, name, checksum) VALUES ($1, $2, $3)
