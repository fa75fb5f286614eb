# SPDX-License-Identifier: Apache-2.0
# data_copies.sh - sourced after lib.sh by the tests of data_copies: a small job on ssh hosts, whose data files are sent to its trainers, and
# which survives the loss of hosts.
#
#   copies_job N [LINE...]   N ssh hosts, the workspace ws, and conf.ini with the lines in [cluster]. At the end no process of a job is left
#   slow_job MS              slow.ini: the same job, each step of a trainer takes so much longer
#   detach NAME [OPTION...]  starts slow.ini detached, with outputs NAME: JOB
#   lose NODE...             the agents and guardians of these nodes are killed at once, and with them their processes
#   job_dir NODE, data_of NODE, digest FOLDER
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
export XDG_CACHE_HOME=$TMP/cache
ctl=$BIN/paddlectl SEED=${SEED:-1}
nothing_left() { ! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q "$fx/node[0-9]/.*JOB"; }
on_cleanup() { wait_for 60 "no process of a job is left" nothing_left; hosts_end; }

copies_job() {
    ssh_hosts "$1"
    shift
    cd "$TMP" || exit
    tiny_data ws/train
    tiny_model train='train/*' vocabulary=300 hidden=12 optimizer=adam rate=0.02 <<'END' >ws/train.ini
batch_size = 48
num_passes = 3
log_period = 1
saving_period_by_batches = 4
reconnect_timeout = 0.5
n_streams = 6
reproducible = topology
checkpoint_copies = 2
END
    { cat "$fx/conf.ini" && printf '%s\n' '[cluster]' "$@" '[job]' 'job_dispatch_package = ws' \
        'on_failure = restart' 'detach_lease = 10'; } >conf.ini
}
slow_job() { { cat conf.ini && printf '[env]\nPADDLE_FAULT = slow.train.step:%d\n' "$1"; } >slow.ini; }
digest() { "$TOP/tests/support/model-digest" "$1/pass-00002" | cut -d' ' -f1; }
job_dir() { ls -d "$fx/node$1/home/"*/"$JOB" "$fx/node$1/$JOB" "$fx/node$1/"*/"$JOB" 2>/dev/null | head -1; }
data_of() { (cd "$(job_dir "$1")/workspace/train" 2>/dev/null && echo part-*); }
saved() { grep -qs 'Saved output/pass-' "$(job_dir 0)/log/train.log"; }

detach() {
    JOB=$("$ctl" run --conf=slow.ini --outputs="$1" --detach "${@:2}" 2>detach.err) || die "run --detach: $(cat detach.err)"
    wait_for 120 "a checkpoint" saved
}

lose() {
    local node agent pids=()
    for node; do
        agent=$(cat "$(job_dir "$node")/.agent/pid")
        pids+=("$(awk '/^PPid:/ { print $2 }' "/proc/$agent/status")" "$agent")
    done
    kill -9 "${pids[@]}" || die "no agents: ${pids[*]}"
}
