#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# engine = kubernetes: the manifests against the official models, and whole runs with the kubectl of
# the tests: to a model, Ctrl-C, detached, killed, pods that die or never start, streams that are cut.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/kube/kube.sh"
run_waiting() { # OPTIONS...: a job whose trainers sleep
    start run "$ctl" run --conf=conf.ini --trainer_command=./wait.sh "$@"
    wait_for 60 "three trainers" trainers 3
}
ends() { # STATUS WHAT: the job of run_waiting
    wait "$PID"
    local status=$?
    [ $status = "$1" ] || die "$2: exit status $status, not $1: $(cat run.log)"
}
stream_of() { awk -v pod="$1" '$1 ~ pod { pid = $2 } END { print pid }' "$KUBE_STATE/clients"; }

# --- the manifests: fields of the official models, none missing; the files of conf/kubernetes
if /usr/bin/python3 -c 'import kubernetes, yaml' 2>/dev/null; then
    models() { /usr/bin/python3 "$TOP/tests/support/kube/models.py" "$@"; }
    yaml() { "$ctl" run --conf="$TOP/conf/kubernetes.ini" --dry-run=yaml "$@"; }
    yaml --pservers=none >job.yaml
    yaml --nodes=2 --pservers=1 --node_selector='zone=no, size=1e3, on=yes' --run_as=0 --port=0 \
        --tolerations='a=null:NoExecute, true, b:NoSchedule' --image_pull_secret=reg >odd.yaml
    for f in together apart; do
        n=4
        [ $f = together ] || n=2
        yaml --pservers=$n | sed 's|\(paddlectl/user\): .*|\1: "you"|' >$f.yaml
        diff <(grep -v '^#' "$TOP/conf/kubernetes/$f.yaml") $f.yaml ||
            die "conf/kubernetes/$f.yaml is not what the program prints"
    done
    expect 0 models together.yaml apart.yaml job.yaml odd.yaml "$TOP/conf/kubernetes/role.yaml"
    has "apart.yaml Service StatefulSet Job"
    has "job.yaml Service Job"
    for bad in 's/serviceName/servicename/' '/serviceName/d' 's/replicas: 2/replicas: "2"/' \
        's/completions: 2/completions: no/'; do
        sed "$bad" apart.yaml >bad.yaml
        ! cmp -s bad.yaml apart.yaml || die "$bad changes nothing"
        expect 1 models bad.yaml
    done
    "$ctl" run --conf=conf.ini --run_name=same --dry-run=yaml >same.yaml
else
    echo "skipped: no python3-kubernetes for the part with the models"
fi
expect 2 x run --dry-run=xml
has "--dry-run is 0, 1 or yaml, not 'xml'"
expect 2 x run --engine=ssh --nodes=0 --hosts=a --dry-run=yaml
has "engine = ssh has no manifests"
for bad in image= image='a b' cpu=two memory='2 GB' shm=x run_name=Up run_name=1a node_selector=disk \
    tolerations=a:Never namespace=A context='a b' nodes=0; do
    expect 2 x run --dry-run "--${bad%%=*}=${bad#*=}"
    has "${bad%%=*}"
done
expect 2 x run --launch='mpirun x'
has "starts its pods without launch"
expect 0 x run --dry-run
has "would run on 3 hosts: 2 pservers, 3 trainers"
expect 0 x conf
has "connect = kubectl --context test -n ml exec -i %h -c paddle --"
[ ! -e "$KUBE_STATE/calls" ] || die "kubectl was called: $(cat "$KUBE_STATE/calls")"

# --- a run to a model, through streams that lose their first bytes; then nothing is left
: >"$KUBE_STATE/lose"
expect 0 x run --run_name=same
has "run same: 3 pods"
has "model: output/"
has "same-0/trainer"
ls output/latest/pass-00001 >/dev/null || die "no model: $(find output)"
[ ! -e same.yaml ] || expect 0 models same.yaml --same "$KUBE_STATE/applied"
! grep -v '^--context test -n ml ' "$KUBE_STATE/calls" || die "without context and namespace"
! grep 'exec.* -t' "$KUBE_STATE/calls" || die "exec has a terminal"
rm "$KUBE_STATE/lose"
gone "a run"

# --- a pod that is evicted has not done its part of the Job
for kind in Job StatefulSet; do
    /usr/bin/python3 - "$KUBE_STATE/applied" $kind >pod.sh <<'END' || die "no $kind"
import json, sys
o = next(o for o in json.load(open(sys.argv[1]))["items"] if o["kind"] == sys.argv[2])
print(o["spec"]["template"]["spec"]["containers"][0]["command"][2])
END
    start pod env HOME="$TMP/evicted" sh pod.sh
    wait_for 30 "the pod waits" pgrep -P "$PID" sleep
    sleeper=$(pgrep -P "$PID" sleep)
    kill "$PID"
    wait "$PID"
    status=$?
    kill "$sleeper"
    [ $status = 1 ] || die "a pod of the $kind ends with status $status after TERM"
done

# --- a silent command outlives the limit of idle streams, beside the parts below
mkdir idle
echo 40 >idle/idle
KUBE_STATE=$TMP/idle kubectl --context test -n ml apply -f - <"$KUBE_STATE/applied"
on_cleanup() {
    kubectl end >/dev/null
    KUBE_STATE=$TMP/idle kubectl end >/dev/null
}
start silent env KUBE_STATE="$TMP/idle" "$ctl" exec --conf=conf.ini --run_name=same \
    'sleep 50; echo still here'
silent=$PID

# --- Ctrl-C while the pods start, and while the job runs
echo 100 >"$KUBE_STATE/slow"
start run "$ctl" run --conf=conf.ini
wait_for 30 "the progress" grep -q "0 of 3 pods run; .*: ContainerCreating" run.log
kill -INT "$PID"
ends 130 "Ctrl-C while the pods start"
gone "Ctrl-C while the pods start"
rm "$KUBE_STATE/slow"
run_waiting
kill -INT "$PID"
ends 130 "Ctrl-C"
gone "Ctrl-C"

# --- another terminal finds the pods by label; a stream that is cut is made again
run_waiting
n=$(wc -l <"$KUBE_STATE/clients")
kill -USR1 "$(stream_of trainer-0)" || die "no stream"
wait_for 30 "a new stream" eval '[ "$(wc -l <"$KUBE_STATE/clients")" -gt $n ]'
sleep 1
trainers 3 || die "the job did not survive a cut stream: $(cat run.log)"
expect 2 x clean --run_name=nobody
has "Kubernetes has no run nobody"
expect 0 x ps
has running
expect 0 x clean
has "a job runs on 3 of the 3 nodes: they stay"
expect 0 x stop
ends 130 "stopped from elsewhere"
gone "stop from elsewhere"

# --- detached: status, logs, fetch; the same name again: its pods are used, and stay
expect 0 x run --detach --run_name=kept --num_passes=150
has "the pods stay: run_name = kept"
wait_for 120 "the detached job's end" eval 'x ps | grep -q done'
mkfifo never
exec 7<>never
for s in INT TERM HUP; do # while paddlectl reads its input
    start reader "$ctl" exec --conf=conf.ini --stdin=never cat 7<&-
    wait_for 30 "exec reads its input" eval '[[ $(readlink /proc/$PID/exe) == */paddlectl ]] && ls -l /proc/$PID/fd | grep -q never'
    kill -$s "$PID"
    wait_for 60 "$s ends exec" eval '! kill -0 $PID'
    wait "$PID"
    status=$?
    [ $status = $((128 + $(kill -l $s))) ] || die "$s: exit status $status: $(cat reader.log)"
done
exec 7<&-
expect 0 x status
expect 0 x logs latest
has "kept-0/trainer"
rm -rf output
expect 0 x fetch latest
ls output/latest/pass-00149 >/dev/null || die "no model: $(find output)"
expect 0 x run --run_name=kept
has "run kept: its pods are there, and stay"
expect 2 x run --run_name=kept --nodes=4
has "the run kept is there with 2 + 1 pods, but nodes and pservers ask for 2 + 2"
expect 0 x run --num_passes=1
has "you have pods of other runs, too: kept"
expect 0 x run --detach --run_name=second --num_passes=150
expect 2 x ps
has "there are 2 runs: choose with --run_name (kept, second)"
wait_for 120 "the detached job's end" eval 'x ps --run_name=second | grep -q done'
echo exec >"$KUBE_STATE/refuse"
expect 3 x clean --run_name=kept
has "the pods stay, since a job may run there; delete them:"
has "kubectl --context test -n ml delete statefulset,job,service -l app.kubernetes.io/instance=kept"
rm "$KUBE_STATE/refuse"
echo full >"$KUBE_STATE/unschedulable"
kubectl lose kept-1 # the new pod has no machine
rm "$KUBE_STATE/unschedulable"
echo 0 >"$KUBE_STATE/quota"
kubectl lose second-0 # no new pod
rm "$KUBE_STATE/quota"
expect 255 x exec --run_name=kept true
for name in kept second; do
    expect 0 x clean --dry-run --run_name=$name
    has "would delete the "
    expect 0 x clean --run_name=$name
    has "run $name: the pods are deleted"
done
gone clean
expect 2 x ps
has "Kubernetes has no pods of"

# --- the same name again, while the pods of the deleted run are still there
echo 4 >"$KUBE_STATE/collect"
expect 0 x run --run_name=again
expect 0 x run --run_name=again
has "run again: waiting for the end of 3 pods of an earlier run of this name"
expect 3 x run --run_name=again --pod_timeout=1
has "run again: 3 pods of an earlier run of this name did not end within 1 s"
rm "$KUBE_STATE/collect"
wait_for 30 "the garbage collection" eval \
    '[ "$(kubectl get pod -l app.kubernetes.io/instance=again -o json | grep -c again-0)" = 0 ]'
gone "the same name again"

# --- a stopped job with a saved model: the pods stay until it is fetched, or the job goes on there
start run "$ctl" run --conf=conf.ini --num_passes=100000 --saving_period=1
wait_for 60 "a saved model" grep -q "Saved output/pass-00002" run.log
kill -INT "$PID"
ends 130 "Ctrl-C after a saved model"
name=$(sed -n 's/.*the pods stay: run_name = \([^.]*\)\..*/\1/p' run.log)
resume=$(grep -o -- '--resume=[^ ]*' run.log) || die "no way to continue: $(cat run.log)"
expect 0 x run "$resume" --num_passes=1000 --saving_period=500 --run_name="$name"
has "its pods are there, and stay"
resume=${resume#*=}
expect 0 x fetch --run_name="$name" --pass=2 "${resume%/*}"
expect 0 x clean
gone "clean after a saved model"

# --- paddlectl is killed: the lease ends the job, and clean deletes the pods
run_waiting
kill -KILL "$PID"
wait "$PID" 2>/dev/null
wait_for 60 "the lease ends the trainers" trainers 0
wait_for 30 "the end of the agents" eval 'x clean 2>&1 | grep -q deleted'
gone "a killed paddlectl"

# --- a pod dies: the job fails and names it, or goes on without it
run_waiting --run_name=a
kubectl lose a-1
ends 1 "a lost pod"
grep -q "paddlectl: a-1: " run.log || die "the lost pod is not named: $(cat run.log)"
gone "a lost pod"
printf '#!/bin/sh\n[ "$PADDLE_RESTART_COUNT" = 0 ] || exit 0\nexec sleep 305.%s\n' $$ >ws/wait.sh
run_waiting --run_name=a --on_failure=restart
kubectl lose "$(awk '/a-trainer-0/ { name = $1 } END { print name }' "$KUBE_STATE/clients")"
ends 0 "a lost pod with on_failure = restart"
grep -q "a-trainer-0" run.log || die "the lost pod is not named: $(cat run.log)"
gone "a lost pod with on_failure = restart"

# --- pods that never start: the event's text, the host, status 3, one message, nothing left
never() { # TEXT OPTIONS...
    expect 3 x run --run_name=b "${@:2}"
    has "$1"
    [ "$(grep -c '^paddlectl: [bk]' <<<"$OUT")" -le 1 ] || die "more than one message: $OUT"
    gone "a run that never starts"
}
echo 'Failed to pull image "nowhere/x": not found' >"$KUBE_STATE/image"
never 'b-0: the pod did not start: ImagePullBackOff: Back-off pulling image "nowhere/x": Failed to pull' \
    --image=nowhere/x
rm "$KUBE_STATE/image"
echo 2 >"$KUBE_STATE/quota"
never 'b-trainer-0: the pod did not start: the pod does not exist yet: create Pod b-trainer-0-'
has 'forbidden: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2'
rm "$KUBE_STATE/quota"
echo '0/3 nodes are available: 3 Insufficient memory.' >"$KUBE_STATE/unschedulable"
never 'b-0: the pod did not start within 1 s: Unschedulable: 0/3 nodes are available: 3 Insuff' \
    --pod_timeout=1
has_not "Failed to pull"
rm "$KUBE_STATE/unschedulable"
# the events of the runs above are still there
echo 2 silently >"$KUBE_STATE/quota"
never 'b-trainer-0: the pod did not start within 2 s: the pod does not exist yet' --pod_timeout=2
has_not forbidden
rm "$KUBE_STATE/quota"
echo apply >"$KUBE_STATE/refuse"
never 'kubectl apply failed: Error from server (Forbidden)'
echo exec >"$KUBE_STATE/refuse"
never 'cannot exec resource "pods"'
echo delete >"$KUBE_STATE/refuse"
expect 0 x run --run_name=b --num_passes=1
has "warning: the pods could not be deleted: kubectl delete failed"
has "kubectl --context test -n ml delete statefulset,job,service -l app.kubernetes.io/instance=b"
rm "$KUBE_STATE/refuse"
kubectl delete statefulset,job,service -l app.kubernetes.io/instance=b
gone "the printed command"

# --- mistakes of the workspace are found before a pod exists; kubectl is not installed
: >"$KUBE_STATE/calls"
expect 2 x run --config=nothing.ini
[ ! -s "$KUBE_STATE/calls" ] || die "$(cat "$KUBE_STATE/calls")"
for c in run ps; do
    expect 2 env PATH=/nowhere "$ctl" $c --conf=conf.ini
    [ "$OUT" = "paddlectl: conf.ini:2: engine = kubernetes needs kubectl, which is not installed here" ] ||
        die "$OUT"
done

wait "$silent" || die "the silent command: $(cat silent.log)"
[ "$(cat silent.log)" = "same-[0-1],same-trainer-0: still here" ] || die "$(cat silent.log)"
