-- Whether somebody, in any process, watches the live stream of a queue.
SELECT 1 FROM runnerq_watchers WHERE queue = :queue AND until_ms > :now_ms LIMIT 1;
