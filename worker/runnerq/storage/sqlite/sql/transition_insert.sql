-- One step for the live stream.
INSERT INTO runnerq_transitions (queue, at_ms, event) VALUES (:queue, :now_ms, :event);
