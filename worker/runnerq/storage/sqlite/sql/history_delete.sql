-- The second half of a revival.
DELETE FROM runnerq_history WHERE row_id = :row_id;
