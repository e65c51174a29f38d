-- Why acknowledgements were not taken: 1 accepted before with the same content, 2 with another, 3 claim lost,
-- 0 the claim is held after all (the row was being written while we looked: try again).
-- Reads both tables with one snapshot: an activity moves between them in one step, so it is in one of them.
-- Rare, so it may compare whole results.
SELECT d.place,
       CASE WHEN a.token = d.token THEN 0
            WHEN a.last_token = d.token THEN CASE WHEN a.last_digest = d.digest THEN 1 ELSE 2 END
            WHEN h.token = d.token THEN
              CASE WHEN h.outcome = d.outcome AND h.result IS NOT DISTINCT FROM d.result
                    AND (d.result IS NULL OR h.result_codec = d.result_codec)
                    AND h.error IS NOT DISTINCT FROM d.error THEN 1 ELSE 2 END
            ELSE 3 END AS answer,
       h.state AS ended
FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[], $5::text[], $6::bytea[], $7::bigint[])
  WITH ORDINALITY AS d(id, token, outcome, result, result_codec, error, digest, place)
LEFT JOIN {schema}.runnerq_activities a ON a.id = ANY (ARRAY[d.id]) AND a.queue_id = $8
LEFT JOIN {schema}.runnerq_history h ON h.id = ANY (ARRAY[d.id]) AND h.queue_id = $8
