-- Which queues got work since the last look: a row per queue.
SELECT queue, version FROM runnerq_work;
