#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three hosts that have IPv6 addresses only: ssh, the agents among themselves, pservers and trainers, ours and a user's.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
[ -e /proc/sys/net/ipv6 ] || skip "this kernel has no IPv6"
net_hosts 3 1gbit ipv6
cd "$TMP" || die cd
none_left() { [ -z "$("$fixture" pids "$ns")" ]; }
mkdir ws
cat >ws/server.py <<'END'
import os, socket, time
s = socket.socket(socket.AF_INET6)
s.bind(("::", int(os.environ["PADDLE_PORT"])))
s.listen()
time.sleep(1000)
END
cat >ws/train.py <<'END'
import os, socket
for e in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(","):
    ip, port = e[1:].split("]:")
    socket.create_connection((ip, int(port))).close()
print("trainer", os.environ["PADDLE_TRAINER_ID"], "at", os.environ["POD_IP"], "reached", os.environ["PADDLE_PSERVERS_IP_PORT_LIST"])
END
cat "$ns/conf.ini" - >conf.ini <<END
[job]
job_dispatch_package = ws
END
expect 0 "$fixture" exec "$ns" "$BIN/paddlectl" run --conf=conf.ini --trainer_command='/usr/bin/python3 train.py' \
    --pserver_command='/usr/bin/python3 server.py'
for i in 0 1 2; do
    has "trainer $i at fd77::$((i + 1)) reached [fd77::1]:7164,[fd77::2]:7164,[fd77::3]:7164"
done
wait_for 8 "nothing is left on the hosts" none_left

# Our own trainer and parameter server: a table of three words, two passes.
mkdir own
for i in $(seq 60); do echo "$((i % 5)) $(((i + 1) % 5))"; done >own/data-00000
cp own/data-00000 own/data-00001
cp own/data-00000 own/data-00002
cat >own/train.ini <<'END'
[data]
format = ids
train = data-*
fields = a b
vocabulary = 5
[layer emb]
type = embedding
inputs = a
size = 4
[layer predict]
type = fc
inputs = emb
size = 5
act = softmax
[cost next]
type = cross_entropy
input = predict
label = b
[optimizer]
type = sgd
learning_rate = 0.1
END
sed -i 's/= ws$/= own/' conf.ini
expect 0 "$fixture" exec "$ns" "$BIN/paddlectl" run --conf=conf.ini --num_passes=2 --batch_size=12
[ -s output/latest/pass-00001/manifest.json ] || die "no model came back: $(find output) $OUT"
wait_for 8 "nothing is left on the hosts" none_left

# By hand, on one host: brackets, and an address alone.
head -c 32 /dev/urandom >key && chmod 600 key
start hand ip netns exec "$(cat "$ns/name")-n0" "$BIN/paddle_worker" pserver --nics=fd77::1 --port=9000 --num_gradient_servers=1 --key_file=key
wait_for 10 "the pserver" grep -q "pserver listens on fd77::1" "$TMP/hand.log"
cd own || die cd
expect 0 "$fixture" exec "$ns" "$BIN/paddle_worker" trainer --pservers=fd77::1 --port=9000 --key_file=../key --num_passes=1 --batch_size=12
wait "$PID" || die "the pserver: $(cat "$TMP/hand.log")"
