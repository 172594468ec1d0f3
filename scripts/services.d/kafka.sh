# Kafka (KRaft, one node) from its Maven artifacts, which are fetched once and kept in SETTLE_CACHE_DIR, by default a
# folder of the user's cache. Where Java or Maven is missing, root installs Debian's. The URL is that of a listener
# without passwords; beside it, one port higher, is one with TLS and SASL (PLAIN and SCRAM): user settle, the password in
# the folder's file "password", the authority that signed the server's certificate in "ca.pem".
# The services kafka3 and kafka3-1 to kafka3-3 are a cluster of three, made with the same functions.
port=${SETTLE_KAFKA_PORT:-5631}
# Ids of the nodes of this cluster, and of it those that this service is.
cluster=0 nodes=0
# What the nodes share, and where each has its own.
home=$dir
node_dir() { echo "$dir"; }
node_port() { echo "$port"; }

jvm=${SETTLE_KAFKA_JVM:--Xms64m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError}
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.11.0

jars() { echo "${SETTLE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/settle}/kafka-$(sha256sum <"$here/services.d/kafka/pom.xml" | cut -c1-16)"; }

install_server() {
  local packages=() new
  command -v java >/dev/null || packages+=(default-jre-headless)
  [ -d "$(jars)" ] || command -v mvn >/dev/null || packages+=(maven)
  command -v openssl >/dev/null || packages+=(openssl)
  if [ ${#packages[@]} -gt 0 ]; then
    install "Kafka needs Java 17 or newer, Maven to fetch it, and openssl; missing here: ${packages[*]}" "${packages[@]}"
  fi
  if [ -d "$(jars)" ]; then return; fi
  say "fetching Kafka"
  mkdir -p "$(dirname "$(jars)")"
  # Renamed when it is whole, so that what was interrupted is fetched again.
  new=$(mktemp -d "$(jars).XXXXXX")
  mvn -q -B -Dstyle.color=never -f "$here/services.d/kafka/pom.xml" "$plugin:copy-dependencies" -DincludeScope=runtime -DoutputDirectory="$new" ||
    { rm -rf "$new"; say "Maven could not fetch Kafka"; exit 3; }
  mv -T "$new" "$(jars)"
}

# make_home makes the password and the certificates. The password is written last: with it all is whole.
make_home() {
  if [ -f "$home/password" ]; then return; fi
  mkdir -p "$home"
  (
    umask 077
    cd "$home"
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=settle test authority" -keyout ca.key -out ca.pem
    openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1") -out server.crt
    openssl pkcs8 -topk8 -nocrypt -in server.key -out server.p8
    cat server.p8 server.crt ca.pem >server.pem
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >password.new
    mv password.new password
  ) 2>"$home/openssl.log" || { cat "$home/openssl.log" >&2; exit 3; }
}

# configure NODE writes its configuration and formats its folder where there is none.
configure() {
  local at rf=1 isr=1 voters= n
  at=$(node_dir "$1")
  if [ "$cluster" != 0 ]; then rf=3 isr=2; fi
  for n in $cluster; do voters+=,$n@127.0.0.1:$(($(node_port "$n") + 2)); done
  mkdir -p "$at"
  sed -e "s|@ID@|$1|; s|@DIR@|$at|; s|@HOME@|$home|; s|@VOTERS@|${voters#,}|; s|@RF@|$rf|; s|@ISR@|$isr|; s|@PASSWORD@|$(cat "$home/password")|" \
    -e "s|@PORT@|$(node_port "$1")|g; s|@TLSPORT@|$(($(node_port "$1") + 1))|g; s|@CPORT@|$(($(node_port "$1") + 2))|" \
    "$here/services.d/kafka/server.properties" >"$at/server.properties"
  if [ -e "$at/data/meta.properties" ]; then return; fi
  run_java kafka.tools.StorageTool format --cluster-id c2V0dGxlLXNlcnZpY2VzLQ --config "$at/server.properties" \
    --add-scram "SCRAM-SHA-256=[name=settle,password=$(cat "$home/password")]" \
    --add-scram "SCRAM-SHA-512=[name=settle,password=$(cat "$home/password")]" >"$at/format.log" 2>&1 || { cat "$at/format.log" >&2; exit 3; }
}

# shellcheck disable=SC2086
run_java() { java $jvm -Dlog4j2.configurationFile="file:$here/services.d/kafka/log4j2.properties" -cp "$(jars)/*" "$@"; }

service_up() {
  install_server
  make_home
  service_start
}

service_start() {
  local n
  for n in $nodes; do configure "$n"; done
  for n in $nodes; do
    if [ -z "$(node_pid "$n")" ]; then begin "$n"; fi
  done
  for n in $nodes; do answers "$n"; done
}

# A shell that waited for the server would hold the lock of scripts/services.
begin() {
  local at
  at=$(node_dir "$1")
  # shellcheck disable=SC2086
  (exec setsid java $jvm -Dlog4j2.configurationFile="file:$here/services.d/kafka/log4j2.properties" -cp "$(jars)/*" \
    kafka.Kafka "$at/server.properties" >>"$at/log" 2>&1 </dev/null) &
  echo $! >"$at/pid"
}

# answers waits until a node knows all that were started with it.
answers() {
  local n seen
  for _ in $(seq 1200); do
    seen=" $(brokers "$1")"
    for n in $nodes; do [[ $seen == *" $n "* ]] || seen=; done
    if [ -n "$seen" ]; then return; fi
    if [ -z "$(node_pid "$1")" ]; then break; fi
    sleep 0.1
  done
  tail -n 10 "$(node_dir "$1")/log" >&2
  say "node $1 of Kafka is not ready"
  exit 3
}

# brokers NODE prints the ids of the brokers that it knows: its answer to a Metadata request, version 4, for no topic.
brokers() {
  (
    exec 8<>"/dev/tcp/127.0.0.1/$(node_port "$1")"
    printf '\0\0\0\017\0\003\0\004\0\0\0\001\377\377\0\0\0\0\0' >&8
    read -r a b c d < <(timeout 2 head -c 4 <&8 | od -An -v -tu1)
    read -r -a r < <(timeout 2 head -c $((a << 24 | b << 16 | c << 8 | d)) <&8 | od -An -v -tu1 | tr '\n' ' ')
    i=12 # behind the correlation id, the throttle time and the number of brokers
    for ((k = r[11]; k > 0; k--)); do
      echo $((r[i + 2] << 8 | r[i + 3]))            # id
      i=$((i + 6 + (r[i + 4] << 8 | r[i + 5]) + 4)) # id, host, port
      l=$((r[i] << 8 | r[i + 1]))                   # length of the rack, 65535 for none
      i=$((i + 2 + l % 65535))
    done
  ) 2>/dev/null | sort -n | tr '\n' ' '
}

# A node without a quorum has nobody to hand over to and does not end by itself.
service_stop() {
  local pid
  for pid in $(service_pids); do kill -TERM "$pid" 2>/dev/null || true; done
  for _ in $(seq 200); do
    if [ -z "$(service_pids)" ]; then return; fi
    sleep 0.1
  done
  for pid in $(service_pids); do kill -KILL "$pid" 2>/dev/null || true; done
  gone
}

service_url() {
  local n hosts=
  for n in $nodes; do hosts+=,127.0.0.1:$(node_port "$n"); done
  echo "kafka://${hosts#,}"
}
service_log() { echo "$(node_dir "${nodes%% *}")/log"; }
service_pids() { for n in $nodes; do node_pid "$n"; done; }

# The file outlives a server that was killed, and its number may be another's by now.
node_pid() {
  local pid at
  at=$(node_dir "$1")
  pid=$(cat "$at/pid" 2>/dev/null) || return 0
  if { tr '\0' '\n' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -xqF "$at/server.properties"; then echo "$pid"; fi
}
