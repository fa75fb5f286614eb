# SPDX-License-Identifier: Apache-2.0
# slurm.sh - sourced after lib.sh: a test in $TMP with a real Slurm of three nodes (slurm-fixture), a
# workspace ws, and a conf.ini with the lines of [cluster] that standard input has.
#
#   inside COMMAND...   runs it in an allocation of all nodes
#   none_left           fails if a process or an allocation is left
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
on_cleanup() { "$TOP/tests/support/engines/slurm-fixture" stop "$TMP/slurm"; }
out=$("$TOP/tests/support/engines/slurm-fixture" start "$TMP/slurm" 3)
rc=$?
[ $rc -ne 77 ] || skip "${out#skip: }"
[ $rc -eq 0 ] || die "no Slurm: $out"
export SLURM_CONF=$TMP/slurm/slurm.conf
cd "$TMP" || exit 1

tiny_data ws/data
tiny_model vocabulary=300 test='data/*' <<'END' >ws/train.ini
END
{
    echo '[cluster]'
    cat
    cat <<END
root_dir = $TMP/root-%n
port = $((10000 + RANDOM % 10000))
[job]
job_dispatch_package = ws
[train]
num_passes = 2
END
} >conf.ini
left() { pgrep -f "$TMP/root-." >/dev/null; }
none_left() {
    wait_for 60 "no process is left" eval '! left'
    wait_for 60 "no allocation is left" eval '[ -z "$(squeue -h)" ]'
}
inside() { salloc -Q --nodes=3 "$@"; }
