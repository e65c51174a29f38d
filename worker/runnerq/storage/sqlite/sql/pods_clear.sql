-- The first half of replacing what is known of a queue's pods.
DELETE FROM runnerq_pods WHERE queue = :queue;
