-- Stop watching, and forget those who stopped without saying so.
DELETE FROM runnerq_watchers WHERE watcher = :watcher OR until_ms <= :now_ms;
