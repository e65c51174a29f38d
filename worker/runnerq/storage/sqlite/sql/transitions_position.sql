-- The last number given out, also when its row is gone.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runnerq_transitions'), 0) AS position;
