#!/bin/sh
# Makes the database on the first start, then becomes the server.
#   POSTGRES_PASSWORD  required
#   POSTGRES_USER      the superuser; postgres without
#   POSTGRES_DB        the database to make; named like the user without
set -eu

if [ "${1:-postgres}" != postgres ]; then
  exec "$@"
fi
user="${POSTGRES_USER:-postgres}"
database="${POSTGRES_DB:-$user}"

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  : "${POSTGRES_PASSWORD:?set POSTGRES_PASSWORD to the password that $user shall have}"
  mkdir -p "$PGDATA"
  chmod 700 "$PGDATA"
  # A pipe, since the password may not be left in a file.
  printf '%s\n' "$POSTGRES_PASSWORD" | initdb -D "$PGDATA" --username="$user" \
    --pwfile=/dev/stdin --encoding=UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host=scram-sha-256 --no-sync
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  if [ "$database" != postgres ]; then
    printf 'CREATE DATABASE "%s"\n' "$database" | postgres --single -D "$PGDATA" postgres
  fi
fi

[ "$#" -eq 0 ] || shift
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql "$@"
