#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# engine = kubernetes with the machine's own kubectl and an API server of the tests: kubectl accepts
# what paddlectl says, and whole runs go through its exec.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/kube/kube.sh"
[ "$real_kubectl" ] || skip "no kubectl"
mkdir real
ln -s "$real_kubectl" real/kubectl
start api /usr/bin/python3 "$TOP/tests/support/kube/api.py" "$TMP/kubeconfig"
wait_for 30 "the API server" test -e kubeconfig
client=(env KUBECONFIG="$TMP/kubeconfig" PATH="$TMP/real:$PATH")
x() { "${client[@]}" "$ctl" "$@"; }
"${client[@]}" kubectl version --client 2>/dev/null | head -n 1

expect 0 x run
has "model: output/"
has "trainer | Saved output/pass-00001"
gone "a run"

expect 0 x run --detach --num_passes=150 --run_name=kept
expect 7 x exec --run_name=kept 'seq 100000; echo error >&2; exit 7'
has $'\n100000\n'
has "kept-[0-1],kept-trainer-0: exit status 7"
seq 100000 >input
expect 0 x exec --stdin=input cksum
has "kept-[0-1],kept-trainer-0: $(cksum <input)"
wait_for 60 "the detached job's end" eval 'x ps | grep -q done'
expect 0 x fetch latest
expect 0 x clean
has "run kept: the pods are deleted"
gone clean

start run "${client[@]}" "$ctl" run --trainer_command=./wait.sh
wait_for 60 "three trainers" trainers 3
kill -INT "$PID"
wait "$PID"
status=$?
[ $status = 130 ] || die "Ctrl-C: exit status $status: $(cat run.log)"
gone Ctrl-C

echo 2 >"$KUBE_STATE/quota"
expect 3 x run
has "forbidden: exceeded quota: team"
gone "a quota"
expect 3 x run --context=nowhere
has 'kubectl get failed: '
has nowhere
gone "a wrong context"
