-- Keep what the row will not be able to tell.
INSERT INTO runnerq_events (activity_id, event) VALUES (:id, :event);
