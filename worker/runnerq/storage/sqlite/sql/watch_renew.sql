-- Watch, or go on watching: a watcher that dies is forgotten after its time.
INSERT INTO runnerq_watchers (watcher, queue, until_ms) VALUES (:watcher, :queue, :until_ms)
ON CONFLICT (watcher) DO UPDATE SET until_ms = excluded.until_ms;
