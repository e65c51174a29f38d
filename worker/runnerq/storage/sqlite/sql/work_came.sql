-- New claimable work in a queue: other processes see the number change.
INSERT INTO runnerq_work (queue, version) VALUES (:queue, 1)
ON CONFLICT (queue) DO UPDATE SET version = version + 1;
