-- Whether a watch is no longer in force: events may have gone unrecorded.
SELECT 1 WHERE NOT EXISTS (
  SELECT 1 FROM runnerq_watchers WHERE watcher = :watcher AND until_ms > :now_ms);
