# RocketMQ, a name server and one master, from its Maven artifacts, which are fetched once and kept in SETTLE_CACHE_DIR, by
# default a folder of the user's cache. Where Java or Maven is missing, root installs Debian's. The URL is the name
# server's; each node is a service of its own, too: kill, pause, resume, start, logs and status take rocketmq-ns and
# rocketmq-a. The services rocketmq2 (two masters) and rocketmqha (a master and its slave) are made with the same functions.
port=${SETTLE_ROCKETMQ_PORT:-5681}
# All nodes of this cluster, and of it those that this service is.
cluster="ns a" nodes="ns a"
home=$dir

jvm=${SETTLE_ROCKETMQ_JVM:--XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError}
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.11.0

node_dir() { echo "$home/$1"; }
# A broker also takes the ports two below and one above its own.
node_port() {
  case $1 in
  ns) echo "$port" ;;
  a) echo $((port + 3)) ;;
  *) echo $((port + 7)) ;;
  esac
}
# The names that the name server knows nodes by: a slave has its master's.
node_name() { if [ "$1" = s ]; then echo broker-a; else echo "broker-$1"; fi; }
node_role() {
  if [ "$1" = s ]; then echo SLAVE
  elif [[ " $cluster " == *" s "* ]]; then echo SYNC_MASTER
  else echo ASYNC_MASTER; fi
}

jars() { echo "${SETTLE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/settle}/rocketmq-$(sha256sum <"$here/services.d/rocketmq/pom.xml" | cut -c1-16)"; }

install_server() {
  local packages=() new
  command -v java >/dev/null || packages+=(default-jre-headless)
  [ -d "$(jars)" ] || command -v mvn >/dev/null || packages+=(maven)
  if [ ${#packages[@]} -gt 0 ]; then
    install "RocketMQ needs Java 17 or newer, and Maven to fetch it; missing here: ${packages[*]}" "${packages[@]}"
  fi
  if [ -d "$(jars)" ]; then return; fi
  say "fetching RocketMQ"
  mkdir -p "$(dirname "$(jars)")"
  # Renamed when it is whole, so that what was interrupted is fetched again.
  new=$(mktemp -d "$(jars).XXXXXX")
  mvn -q -B -Dstyle.color=never -f "$here/services.d/rocketmq/pom.xml" "$plugin:copy-dependencies" -DincludeScope=runtime -DoutputDirectory="$new" ||
    { rm -rf "$new"; say "Maven could not fetch RocketMQ"; exit 3; }
  mv -T "$new" "$(jars)"
}

service_up() {
  install_server
  service_start
}

# The name server first: a broker is ready when it is known there. Whatever it is told, a broker takes nothing when its disk
# is 90 % full.
service_start() {
  local n full
  full=$(df --output=pcent "$state" | tail -n 1 | tr -dc 0-9)
  if [ "$full" -ge 90 ]; then
    say "the disk of $state is $full % full, and RocketMQ takes nothing from 90 % on: make room, or set SETTLE_SERVICES_DIR to a folder on another"
    exit 3
  fi
  for n in $nodes; do
    if [ -z "$(node_pid "$n")" ]; then begin "$n"; fi
    answers "$n"
  done
}

# configure NODE writes its configuration.
configure() {
  local at file=broker id=0
  at=$(node_dir "$1")
  if [ "$1" = ns ]; then file=namesrv; fi
  if [ "$(node_role "$1")" = SLAVE ]; then id=1; fi
  mkdir -p "$at"
  sed -e "s|@NAME@|$(node_name "$1")|; s|@ID@|$id|; s|@ROLE@|$(node_role "$1")|; s|@DIR@|$at|; s|@NSPORT@|$port|" \
    -e "s|@PORT@|$(node_port "$1")|; s|@HAPORT@|$(($(node_port "$1") + 1))|" "$here/services.d/rocketmq/$file.conf" >"$at/settle.conf"
  # A master waits for as many nodes as this says, itself among them, and that is 1 unless it is said.
  if [ "$(node_role "$1")" = SYNC_MASTER ]; then echo inSyncReplicas=2 >>"$at/settle.conf"; fi
  # More lines for a test's own node, such as flushDiskType=ASYNC_FLUSH.
  if [ "$1" != ns ]; then printf '%s\n' "${SETTLE_ROCKETMQ_CONF:-}" >>"$at/settle.conf"; fi
}

# A shell that waited for the server would hold the lock of scripts/services.
begin() {
  local at class=org.apache.rocketmq.broker.BrokerStartup heap="-Xms192m -Xmx384m -XX:MaxDirectMemorySize=256m" logback=broker
  configure "$1"
  at=$(node_dir "$1")
  if [ "$1" = ns ]; then class=org.apache.rocketmq.namesrv.NamesrvStartup heap="-Xms48m -Xmx128m" logback=namesrv; fi
  # shellcheck disable=SC2086
  (ROCKETMQ_HOME=$at exec setsid java $jvm $heap -Djava.net.preferIPv4Stack=true --add-exports=java.base/sun.nio.ch=ALL-UNNAMED \
    -Duser.home="$at" -Drocketmq.home.dir="$at" -Drmq.logback.configurationFile="rmq.$logback.logback.xml" \
    -cp "$(jars)/*" $class -c "$at/settle.conf" >>"$at/log" 2>&1 </dev/null) &
  echo $! >"$at/pid"
  # Until it is Java it is no node: on a busy machine that would be taken for one that has ended.
  for _ in $(seq 200); do
    if [ -n "$(node_pid "$1")" ] || ! kill -0 $! 2>/dev/null; then return; fi
    sleep 0.05
  done
}

be32() { printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)); }

# ask PORT CODE [FIELDS] [BODY] sends one remoting request, and prints the answer without its zero bytes.
ask() {
  local header body=${4:-}
  header="{\"code\":$2,\"extFields\":{${3:-}},\"flag\":0,\"language\":\"JAVA\",\"opaque\":1,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":0}"
  (
    exec 8<>"/dev/tcp/127.0.0.1/$1" || exit 1
    # shellcheck disable=SC2059
    printf "$(be32 $((4 + ${#header} + ${#body})))$(be32 ${#header})%s%s" "$header" "$body" >&8
    timeout 3 dd bs=1M count=1 <&8 | tr -d '\0'
  ) 2>/dev/null
}

# ready NODE: a name server answers a request for the cluster (106); a broker one for its state (28), and is known to the
# name server under its id. A fresh broker would make itself known 10 s late: setting its permission to what it is (25)
# makes it do so at once.
ready() {
  local known id=0
  known=$(ask "$port" 106) || return 1
  if [ "$1" = ns ]; then [ -n "$known" ]; return; fi
  if [ "$(node_role "$1")" = SLAVE ]; then id=1; fi
  [[ $(ask "$(node_port "$1")" 28) == *bootTimestamp* ]] || return 1
  if [[ $known =~ \"$(node_name "$1")\":\{[^\}]*$id:\"127.0.0.1:$(node_port "$1")\" ]]; then return; fi
  ask "$(node_port "$1")" 25 '' brokerPermission=6 >/dev/null
  return 1
}

answers() {
  local b
  for _ in $(seq 1200); do
    if ready "$1"; then
      # A name server knows nobody when it starts again.
      if [ "$1" = ns ]; then for b in ${cluster#ns}; do if [ -n "$(node_pid "$b")" ]; then answers "$b"; fi; done; fi
      return
    fi
    if [ -z "$(node_pid "$1")" ]; then break; fi
    sleep 0.1
  done
  tail -n 10 "$(node_dir "$1")/log" >&2
  say "node $1 of RocketMQ is not ready"
  exit 3
}

# A broker takes more than 10 s to end in order, and loses nothing when it does not.
service_stop() {
  local pid
  for pid in $(service_pids); do kill -KILL "$pid" 2>/dev/null || true; done
  gone
}

service_url() { echo "rocketmq://127.0.0.1:$port"; }
service_log() { local n; for n in $nodes; do :; done; echo "$(node_dir "$n")/log"; }
service_pids() { for n in $nodes; do node_pid "$n"; done; }

# The file outlives a server that was killed, and its number may be another's by now.
node_pid() {
  local pid at
  at=$(node_dir "$1")
  pid=$(cat "$at/pid" 2>/dev/null) || return 0
  if { tr '\0' '\n' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -xqF "$at/settle.conf"; then echo "$pid"; fi
}
