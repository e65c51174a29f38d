-- Queues and activity types as small numbers: a row names its type in 4 bytes, and an index on the
-- type serves every queue, because a type belongs to one queue. Rows here are never deleted.

CREATE TABLE {schema}.runnerq_queues (
  queue_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE
);

CREATE TABLE {schema}.runnerq_types (
  type_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue_id int NOT NULL REFERENCES {schema}.runnerq_queues,
  name text NOT NULL,
  UNIQUE (queue_id, name)
);
