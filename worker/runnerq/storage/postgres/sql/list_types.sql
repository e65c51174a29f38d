-- All types of queue $1: a few dozen.
SELECT type_id, name FROM {schema}.runnerq_types WHERE queue_id = $1
