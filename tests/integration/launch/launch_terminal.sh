#!/usr/bin/env bash
# release only
# What a person at a terminal sees: log lines, results after a bar, keys, Ctrl-Z, a closed terminal.
. "$(dirname "$0")/../../support/lib.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
ctl=$BIN/paddlectl
mkdir -p "$TMP/ws" "$TMP/large"
cd "$TMP" || die cd
cp "$TOP/tests/support/terminal_trainer.py" ws/train.py
head -c 60000000 /dev/urandom >large/data
cat >conf.ini <<END
[cluster]
hosts = local*3
pservers = 1
root_dir = $TMP/root%n
port = $((20000 + RANDOM % 5000))
[job]
job_dispatch_package = ws
pserver_command = /usr/bin/python3 $TOP/tests/support/own-server.py
trainer_command = /usr/bin/python3 train.py
[env]
GO = $TMP/go
END
for part in lines dispatch; do
    /usr/bin/python3 "$TOP/tests/support/terminal.py" "$ctl" $part || die "on a terminal: $part"
done

# --- a reader that has enough is no error
"$ctl" ps --json 2>err | true
[ "${PIPESTATUS[0]}" = 0 ] && [ ! -s err ] || die "ps --json | true: $(cat err)"
"$ctl" ps 2>err | true
[ "${PIPESTATUS[0]}" = 0 ] && [ ! -s err ] || die "ps | true: $(cat err)"
expect 1 bash -c "'$ctl' ps --json >/dev/full"
has "cannot be written"

# --- 41 dead hosts are one line, whatever asks them
sed 's/^hosts = .*/hosts = local*2, 127.0.0.[10-50]:1/' conf.ini >dead.ini
for command in "run" "ps" "clean" "fetch latest" "logs latest" "dispatch --job_dispatch_package=ws" "exec true"; do
    OUT=$("$ctl" ${command%% *} --conf=dead.ini ${command#* } 2>&1)
    [ "$(grep -c 'cannot connect to port 1' <<<"$OUT")" = 1 ] || die "$command: $OUT"
    has "127.0.0.[10-50]: cannot connect to port 1: Connection refused"
done
expect 0 "$ctl" run --conf=dead.ini --min-nodes=2 --trainer_command=true
has "warning: 127.0.0.[10-50] is left out: cannot connect to port 1"
expect 0 "$ctl" clean --conf=conf.ini --keep=1 --dry-run
OUT=$("$ctl" clean --conf=conf.ini --keep=0)
[[ $OUT == "local.[0-2]: removed "* ]] && [ "$(wc -l <<<"$OUT")" = 1 ] || die "clean: $OUT"
exit 0
