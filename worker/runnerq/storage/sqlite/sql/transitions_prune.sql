-- The live stream is a ring of a minute.
DELETE FROM runnerq_transitions WHERE at_ms <= :before_ms;
