# SPDX-License-Identifier: Apache-2.0
# lib.sh - sourced by tests/integration/*/*.sh: a scratch folder, processes that always end, and
# checks that print the observed values.
#
#   $BIN      folder of the programs under test (PADDLE_BUILD, default build/release)
#   $TMP      scratch folder of this test below build/; removed at the end unless the test failed
#   start NAME COMMAND...   runs a command in the background, with its output in $TMP/NAME.log;
#                           the pid is in $PID
set -u
# python3 is Debian's, whose packages the tests use. A version manager's shim costs ten times as much.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BIN=${PADDLE_BUILD:-$TOP/build/release}
SHARED=${PADDLE_TEST_DATA:-$TOP/../shared/data}
mkdir -p "$TOP/build/tmp"
TMP=$(mktemp -d "$TOP/build/tmp/$(basename "${0%.sh}")-XXXXXX")
# A make in a test compiles nothing anew: objects of other flags than these would be out of date.
! grep -qs -- ' -Werror' "$BIN/flags" || export WERROR=-Werror
# Jobs of other tests on this machine do not count as other jobs (machine_jobs.h).
export PADDLE_MACHINE=test-$$
PIDS=()

cleanup() {
    local status=$?
    trap - EXIT INT TERM
    # A signal to a command that was just started may reach the shell's copy, before it executes it.
    [ "$BASHPID" = $$ ] || exit "$status"
    [ $status -ne 0 ] || [ ! -e "$TMP/.died" ] || status=1
    for p in ${PIDS[@]+"${PIDS[@]}"}; do kill "$p" 2>/dev/null; done
    for p in ${PIDS[@]+"${PIDS[@]}"}; do wait "$p" 2>/dev/null; done
    declare -F on_cleanup >/dev/null && on_cleanup
    if [ $status -eq 0 ] || [ $status -eq 77 ]; then rm -rf "$TMP"; else echo "kept: $TMP"; fi
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Fails the test from any place. In a pipeline or in $( ) an exit ends only that part; the mark file
# then makes the test fail at its end.
die() { echo "FAILED: $*" >&2; : >"$TMP/.died"; exit 1; }
skip() { echo "skipped: $*"; exit 77; }
# The log is emptied here and not by the child: otherwise the output of an earlier process of this
# name could be read as the new one's.
start() { local name=$1; shift; : >"$TMP/$name.log"; "$@" >"$TMP/$name.log" 2>&1 & PID=$!; PIDS+=("$PID"); }
# wait_for SECONDS TEXT COMMAND...: waits until the command succeeds. The limit is generous, not a
# measurement. A long wait asks less often: asking takes the CPU time that the awaited program needs.
wait_for() {
    local end=$((SECONDS + $1)) text=$2 nap=0.05 naps=0
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || die "waited too long: $text"
        sleep $nap
        case $((naps += 1)) in 5) nap=0.1 ;; 10) nap=0.3 ;; esac
    done
}
# blas_used LOG: checks that a worker used the core type in PADDLE_BLAS_CORETYPE, if that is set
blas_used() {
    [ -z "${PADDLE_BLAS_CORETYPE:-}" ] || grep -qi "OpenBLAS for $PADDLE_BLAS_CORETYPE with" "$1" ||
        die "not with OpenBLAS for $PADDLE_BLAS_CORETYPE:" \
            "$(grep -i 'OpenBLAS for' "$1" || tail -n 3 "$1")"
}
# same_figures LEAST A B: compares evaluations of one model through products of different shapes,
# which BLAS rounds differently. The words must be equal. There must be at least LEAST numbers,
# which may differ by 2e-5 of their value, or by 1e-3 if one sample may change its class.
same_figures() {
    paste <(tr -s ', ' '\n' <<<"$2") <(tr -s ', ' '\n' <<<"$3") | awk -v least="$1" '
        $1 ~ /^[0-9]/ {
            if ($2 !~ /^[0-9]/) bad = 1 # every comparison with nan is false
            d = $1 - $2
            by_sample = name ~ /error|recall|precision|f1|calibration/
            if ((d < 0 ? -d : d) > (by_sample ? 1e-3 : 2e-5 * $2)) bad = 1
            n++
            next
        }
        { name = $1 }
        $1 != $2 { bad = 1 }
        END { exit !(n >= least && !bad) }'
}
# expect STATUS COMMAND...: runs the command and checks its exit status; the output is in $OUT
expect() {
    local want=$1 got
    shift
    OUT=$("$@" 2>&1)
    got=$?
    [ $got -eq "$want" ] || die "exit status $got, not $want: $*
$OUT"
}
# end_jobs CONF FOLDER...: for on_cleanup: stops the jobs of these folders that have not ended. A
# part of a test that fails may leave a detached job.
end_jobs() {
    local conf=$1 job
    shift
    for job; do
        [ ! -d "$job" ] || [ -e "$job/result.json" ] ||
            "$BIN/paddlectl" stop --force --conf="$conf" "${job##*/}" >/dev/null 2>&1
    done
}
# Reduces $OUT to its last line: the result after lines about progress.
last_line() { OUT=${OUT##*$'\n'}; }
has() { [[ $OUT == *"$1"* ]] || die "no '$1' in:
$OUT"; }
has_not() { [[ $OUT != *"$1"* ]] || die "'$1' in:
$OUT"; }
# holds CONDITION NAME=NUMBER...: checks an awk condition: holds "x < 2 * y" x="$x" y="$y"
# It fails for a value that is not a number, and for a name in the condition without a value.
holds() {
    local condition=$1 given=' exp log sqrt int ' word args=()
    shift
    for word in "$@"; do
        [[ ${word#*=} =~ ^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$ ]] ||
            die "${word%%=*} is '${word#*=}', not a number; wanted: $condition"
        args+=(-v "$word") given+="${word%%=*} "
    done
    for word in $(sed 's/[0-9.][0-9.]*[eE][-+]*[0-9]*//g' <<<"$condition" |
        grep -oE '[A-Za-z_]+[A-Za-z_0-9]*'); do
        [[ $given == *" $word "* ]] || die "'$word' has no value in: $condition"
    done
    # The output of awk decides and not its status, because an exit in END would replace an earlier
    # one.
    [ "$(awk ${args[@]+"${args[@]}"} "BEGIN { print ($condition) ? \"yes\" : \"no\" }")" = yes ] ||
        die "not: $condition, with $*"
}
# numbered FIRST N WHAT: checks that standard input is N numbers, one per line: FIRST, FIRST + 1,
# ...
numbered() {
    local got
    got=$(cat)
    [ "$2" -gt 0 ] && [ "$got" = "$(seq "$1" $(($1 + $2 - 1)))" ] ||
        die "$3: not $2 numbers from $1 on: $(tr '\n' ' ' <<<"$got" | cut -c1-300)"
}
