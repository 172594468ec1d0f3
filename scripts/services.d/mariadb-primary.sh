# A server as mariadb is one, which mariadb-replica follows. Tests kill it and let the replica take its place.
. "$here/services.d/mariadb.sh"
port=${SETTLE_MARIADB_PRIMARY_PORT:-5622}
