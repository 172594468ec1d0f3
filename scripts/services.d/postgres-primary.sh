# A server as postgres is one, which postgres-replica follows. Tests kill it and let the standby take its place.
. "$here/services.d/postgres.sh"
port=${SETTLE_POSTGRES_PRIMARY_PORT:-5613}
