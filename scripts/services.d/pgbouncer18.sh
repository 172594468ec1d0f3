# What pgbouncer is, before the service postgres18.
. "$here/services.d/pgbouncer.sh"
behind=postgres18
port=${SETTLE_PGBOUNCER18_PORT:-5619}
