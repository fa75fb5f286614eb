# lib.sh - sourced by tests/integration/*.sh: a scratch folder, processes that always end, checks that say what they saw.
#
#   $BIN      folder of the programs under test (PADDLE_BUILD, default build/release)
#   $TMP      scratch folder of this test below build/, removed at the end unless the test failed
#   start NAME COMMAND...   run in the background, output to $TMP/NAME.log; its pid is in $PID
set -u
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BIN=${PADDLE_BUILD:-$TOP/build/release}
SHARED=${PADDLE_TEST_DATA:-$TOP/../shared/data}
mkdir -p "$TOP/build/tmp"
TMP=$(mktemp -d "$TOP/build/tmp/$(basename "${0%.sh}")-XXXXXX")
PIDS=()

cleanup() {
    local status=$?
    trap - EXIT INT TERM
    for p in ${PIDS[@]+"${PIDS[@]}"}; do kill "$p" 2>/dev/null; done
    for p in ${PIDS[@]+"${PIDS[@]}"}; do wait "$p" 2>/dev/null; done
    declare -F on_cleanup >/dev/null && on_cleanup
    if [ $status -eq 0 ] || [ $status -eq 77 ]; then rm -rf "$TMP"; else echo "kept: $TMP"; fi
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() { echo "FAILED: $*" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 77; }
# The log is emptied here, not by the child: what an earlier process of that name said is not to be read as this one's.
start() { local name=$1; shift; : >"$TMP/$name.log"; "$@" >"$TMP/$name.log" 2>&1 & PID=$!; PIDS+=("$PID"); }
# wait_for SECONDS TEXT COMMAND...: until the command succeeds; a generous limit, not a measure
wait_for() {
    local end=$((SECONDS + $1)) text=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || die "waited too long: $text"
        sleep 0.05
    done
}
# expect STATUS COMMAND...: run it, output in $OUT
expect() {
    local want=$1 got
    shift
    OUT=$("$@" 2>&1)
    got=$?
    [ $got -eq "$want" ] || die "exit status $got, not $want: $*
$OUT"
}
has() { [[ $OUT == *"$1"* ]] || die "no '$1' in:
$OUT"; }
has_not() { [[ $OUT != *"$1"* ]] || die "'$1' in:
$OUT"; }
