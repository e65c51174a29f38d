-- Send payloads to channels, all in one commit: a NOTIFY takes a lock that serialises every notifying commit
-- of the database, so it is sent on its own and rarely, never within a claim or an enqueue.
SELECT pg_notify(n.channel, n.payload) FROM unnest($1::text[], $2::text[]) AS n(channel, payload)
