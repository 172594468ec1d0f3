# A replica of mariadb-primary, which is started with it: it follows by GTID, and who may not do all can't write to it.
# Nobody waits for it at first; what switches:
#   on the primary   SET GLOBAL rpl_semi_sync_master_timeout = 3600000; SET GLOBAL rpl_semi_sync_master_enabled = ON
#                    SET GLOBAL rpl_semi_sync_master_enabled = OFF                    commits wait for it, and no more
#   on the replica   STOP SLAVE IO_THREAD, wait until SHOW SLAVE STATUS says "has read all relay log", then
#                    STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF          it takes over
#                    STOP SLAVE                                                       it falls behind
# A pair of which one was promoted is no pair any more: down mariadb-replica mariadb-primary, and up again.
. "$here/services.d/mariadb.sh"
needs=mariadb-primary
port=${SETTLE_MARIADB_REPLICA_PORT:-5623}
server_id=2

primary_url() ( dir=$state/$needs; . "$here/services.d/$needs.sh"; service_url )

# It has the primary's password, and writes nothing into its own binary log by itself.
new_password() { cat "$state/$needs/password"; }

settings() {
  cat <<CONF
read_only = ON
log_slave_updates = ON
rpl_semi_sync_slave_enabled = ON
CONF
}

first_words() {
  local at
  at=$(primary_url)
  at=${at#*@127.0.0.1:}
  cat <<SQL
CHANGE MASTER TO master_host = '127.0.0.1', master_port = ${at%/*}, master_user = 'settle', master_password = '$(new_password)', master_use_gtid = slave_pos, master_connect_retry = 1;
SQL
}
