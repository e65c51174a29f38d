-- Forget engines that fell silent long ago; their work was taken back within seconds.
DELETE FROM runnerq_engines WHERE queue = :queue AND heartbeat_ms < :before_ms;
