-- The second half of replacing what is known of a queue's pods.
INSERT OR REPLACE INTO runnerq_pods (queue, pool, name, pod) VALUES (:queue, :pool, :name, :pod);
