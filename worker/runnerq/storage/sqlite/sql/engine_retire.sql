-- From now on its claims can be taken back.
UPDATE runnerq_engines SET state = 'stopped', busy = 0
WHERE queue = :queue AND engine_id = :engine_id;
