#!/bin/sh
# Three machines in one, as network namespaces: a SuperLink on 10.77.0.1, clients on .2 and .3, and nothing else in reach.
#   sudo sh examples/three_machines.sh FOLDER [ROUNDS]      FOLDER is new; needs root, ip (iproute2) and fedparity[flower]
# The same commands start it on three real machines in a VPN: leave out `ip netns exec`, copy the app and each its key.
set -eu
app=${1:?usage: sh three_machines.sh FOLDER [ROUNDS]}
rounds=${2:-3}
id=fp$$
server=10.77.0.1

end() {
  for n in 0 1 2; do
    for signal in TERM KILL; do
      pids=$(ip netns pids "$id-$n" 2>/dev/null) || continue
      # shellcheck disable=SC2086 # a list
      [ -z "$pids" ] || { kill -s $signal $pids 2>/dev/null || :; sleep 2; }
    done
    ip netns del "$id-$n" 2>/dev/null || :
  done
}
trap end EXIT
trap 'exit 130' INT TERM

for n in 0 1 2; do ip netns add "$id-$n"; ip -n "$id-$n" link set lo up; done
ip -n "$id-0" link add switch type bridge
ip -n "$id-0" link set switch up
ip -n "$id-0" addr add $server/24 dev switch
for n in 1 2; do
  ip -n "$id-0" link add "port$n" type veth peer name wire netns "$id-$n"
  ip -n "$id-0" link set "port$n" master switch up
  ip -n "$id-$n" addr add "10.77.0.$((n + 1))/24" dev wire
  ip -n "$id-$n" link set wire up
done

fedparity deploy init "$app"
cd "$app"
sh keys.sh 2 $server
# shellcheck disable=SC2046 # three assignments
export $(cat flower.env)
mkdir -p state/flwr
sed "s/superlink:8000/$server:8000/; s#/app#$PWD#" connection.toml > state/flwr/config.toml

on() { machine=$1; shift; ip netns exec "$id-$machine" env "FLWR_HOME=$PWD/state/${home:-flwr}" "$@"; }
on 0 flower-superlink --host $server --port 8000 --database state/superlink.db --enable-supernode-auth \
  --ssl-certfile keys/server.pem --ssl-keyfile keys/server.key --ssl-ca-certfile keys/ca.pem > superlink.log 2>&1 &
link=$!
until on 0 fedparity deploy doctor . --superlink $server:8000 --json | grep -q "our certificate"; do
  kill -0 $link || { tail -1 superlink.log >&2; exit 1; }
  sleep 1
done
for k in 0 1; do
  on 0 flwr supernode register "keys/client-$k.pub" here
  home=client-$k on $((k + 1)) flower-supernode --superlink $server:8000 --root-certificates keys/ca.pem \
    --auth-supernode-private-key "keys/client-$k" \
    --node-config "client-id=\"client-$k\" partition-id=$k num-partitions=2" > "client-$k.log" 2>&1 &
done
on 1 fedparity deploy doctor . --superlink $server:8000
on 0 flwr run . here --stream --run-config "rounds=$rounds store=\"$PWD/state/store\" rounds-file=\"$PWD/state/rounds.jsonl\""
fedparity audit state/rounds.jsonl --html report.html
