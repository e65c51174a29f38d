-- The second half of a move into history.
DELETE FROM runnerq_activities WHERE row_id = :row_id;
