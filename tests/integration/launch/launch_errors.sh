#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wrong input to paddlectl: one clear message with file:line or host, the exit status of docs/design.md, nothing done.
. "$(dirname "$0")/../../support/lib.sh"
ctl=$BIN/paddlectl
mkdir -p "$TMP/ws"
echo x >"$TMP/ws/file"

conf() { printf '%s\n' "$@" >"$TMP/conf.ini"; }
wrong() { # wrong STATUS TEXT ARGS...
    local status=$1 text=$2
    shift 2
    expect "$status" "$ctl" "$@"
    has "$text"
}

# --- usage
wrong 2 "usage: paddlectl COMMAND"
wrong 2 "there is no command 'nope'" nope
wrong 0 "usage: paddlectl COMMAND" --help
wrong 0 "paddlectl 0." --version
for c in run check dispatch stop exec prepare split init conf help; do wrong 0 "usage: paddlectl $c" $c --help; done
cd "$TMP" || die cd
wrong 2 "there is no conf.ini here" run
wrong 2 "num_pases" run --num_pases=3
wrong 2 "unexpected word" run extra

# --- names of the original system: what replaces them
wrong 2 "--dot_period has no meaning here: a line about the cost appears every log_period batches" \
    run --dot_period=1
wrong 2 "--config_args has no meaning here: --set SECTION.KEY=VALUE sets a key of train.ini" \
    run --config_args=hidden=64
wrong 2 "--local has no meaning here: --hosts=local trains on this machine" run --local
wrong 2 "--SPLIT_COUNT has no meaning here: prepare and split take --shards=N" run --SPLIT_COUNT=4
cat >conf.ini <<'END'
HOSTS = ["root@10.0.0.17", "root@10.0.0.18"]
ROOT_DIR = "/home/paddle"
PADDLE_NIC = "eth0"
PADDLE_PORT = 7000
PADDLE_PORTS_NUM = 2
PADDLE_PORTS_NUM_FOR_SPARSE = 3
END
wrong 0 "hosts = root@10.0.0.17, root@10.0.0.18" conf --PADDLE_PORTS_NUM=4
for line in 'root_dir = /home/paddle .*conf.ini:2' 'nic = eth0 .*conf.ini:3' \
    'port = 7000 .*conf.ini:4' 'ports_num = 4 .*command line: --PADDLE_PORTS_NUM' \
    'ports_num_for_sparse = 3 .*conf.ini:6'; do
    grep -q "^$line$" <<<"$OUT" || die "no line '$line': $OUT"
done
printf '[cluster]\nHOSTS = root@a[1-2]\nhosts = b\n' >conf.ini
wrong 2 "conf.ini:3: hosts is set twice, first in line 2" conf

# --- the words after -- belong to the user's own program
printf '[cluster]\nhosts = local\nroot_dir = %s/own\npservers = none\n' "$TMP" >conf.ini
wrong 2 "the words after -- are options of a program of your own: set trainer_command" run -- --x
wrong 2 "unexpected word 'extra'" run extra -- --x
wrong 0 "| <--rate=0.1><it's><--><a  \$b>" run --trainer_command="printf '<%s>'" -- --rate=0.1 "it's" -- \
    'a  $b'
rm -rf output own conf.ini
wrong 2 "no input files given" split --shards=2
wrong 2 "number of shards missing" split "$TMP/ws/file"
wrong 2 "no template 'nope'" init nope
wrong 2 "cannot open" run --conf=nope.ini
wrong 2 "$TMP is a folder: give a file, as in --conf=" run --conf="$TMP" # once 1, as of a job that failed
wrong 0 "  word2vec            a word model from the definitions of a dictionary" init
[ "$(grep '^  ' <<<"$OUT")" = "$(grep '^  ' <<<"$OUT" | LC_ALL=C sort)" ] || die "not sorted: $OUT"
wrong 0 "then: fit_a_line/workspace/prepare makes the data, and 'paddlectl run' in fit_a_line starts the job" init fit_a_line

# --- conf.ini: the line stands in the message
conf '[cluster]' 'hosts = local' 'root_dri = /tmp/x'
wrong 2 "conf.ini:3: " run --conf=conf.ini
has root_dri
conf '[cluster]' 'hosts = local' 'port = 70000'
wrong 2 "conf.ini:3: port is 0..65535, not '70000'" run --conf=conf.ini
conf '[cluster]' 'hosts = a, b, a'
wrong 2 "conf.ini:2: host a is given twice, as entries 1 and 3 of the list" run --conf=conf.ini
conf '[cluster]' 'hosts = a[3-1]'
wrong 2 "conf.ini:2: the range in 'a[3-1]' runs backwards" run --conf=conf.ini
conf '[cluster]' 'hosts = a[1-3]' '[host a[4-5]]' 'user = x'
wrong 2 "conf.ini:3: [host a[4-5]]: there is no such host in the list of conf.ini:2" run --conf=conf.ini
conf '[cluster]' 'hosts = a[1-3], @more' '[host a2]' 'usr = x'
wrong 2 "conf.ini:4: unknown key 'usr' in [host a2], did you mean 'user'?" run --conf=conf.ini
conf '[clutser]' 'hosts = a'
wrong 2 "conf.ini:1: unknown section [clutser], did you mean [cluster]?" run --conf=conf.ini
conf '[cluster]' 'hosts = local' 'trainers = 2'
wrong 2 "conf.ini:3: trainers: 2 nodes wanted" run --conf=conf.ini
conf '[cluster]' 'hosts ='
wrong 2 "conf.ini:2: hosts is empty" run --conf=conf.ini
conf '[cluster]' 'root_dir = /tmp/x'
wrong 2 "there are no hosts" run --conf=conf.ini
conf '[cluster]' 'hosts = local'
wrong 2 "there is no workspace" run --conf=conf.ini
wrong 2 "cannot read the workspace" run --conf=conf.ini --job_dispatch_package=nope
wrong 2 "neither a folder nor a tar archive" run --conf=conf.ini --job_dispatch_package=ws/file
conf '[cluster]' 'hosts = a' '[ssh]' 'identity_file = nope' '[job]' 'job_dispatch_package = ws'
wrong 2 "conf.ini:4: cannot read the private key nope" run --conf=conf.ini
conf '[ssh]' 'known_hosts = none' '[cluster]' 'hosts = a' '[job]' 'job_dispatch_package = ws'
wrong 2 "conf.ini:2: cannot read the known hosts file none" run --conf=conf.ini
conf '[ssh]' 'config = none' '[cluster]' 'hosts = a' '[job]' 'job_dispatch_package = ws'
wrong 2 "conf.ini:2: cannot read the ssh configuration none" run --conf=conf.ini
wrong 2 "paddlectl: --identity_file: cannot read the private key nokey" run --conf=conf.ini --ssh.config= --identity_file=nokey
conf '[cluster]' 'hosts = local' '[job]' 'job_dispatch_package = nope'
wrong 2 "conf.ini:4: cannot read the workspace" run --conf=conf.ini

# --- what a training by hand has left in the workspace stays here: who asks for it is told
PADDLECTL=$ctl expect 0 fit_a_line/workspace/prepare --rows=20
mkdir fit_a_line/workspace/output
conf '[cluster]' 'hosts = local' '[job]' 'job_dispatch_package = fit_a_line/workspace' '[train]' 'resume = latest'
wrong 2 "conf.ini:6: resume reads the workspace's output, which is not dispatched: give --resume=" run --conf=conf.ini --dry-run
wrong 2 "init_model_path reads the workspace's output" run --conf=conf.ini --dry-run --resume= --init_model_path=output/pass-00000
wrong 0 "would run on 1 host" run --conf=conf.ini --dry-run --resume=elsewhere/pass-00000
echo '!/output' >fit_a_line/workspace/.paddleignore
wrong 0 "would run on 1 host" run --conf=conf.ini --dry-run
rm -rf fit_a_line

# --- conf shows where values come from
conf '[cluster]' 'hosts = local*2' '[env]' 'A = b'
wrong 0 "conf.ini:2" conf --conf=conf.ini --num-passes 7
[[ $OUT =~ num_passes\ =\ 7\ +\;\ command\ line:\ --num-passes ]] || die "$OUT"
[[ $OUT =~ A\ =\ b ]] || die "$OUT"
wrong 0 '"from": "conf.ini:2"' conf --conf=conf.ini --json

# --- init
wrong 0 word2vec init
wrong 0 "new/conf.ini" init word2vec new
[ -x new/workspace/prepare ] || die "the template's prepare is not executable"
wrong 2 "nothing was changed" init word2vec new
wrong 0 "other/conf.ini" init --template word2vec other
cmp other/workspace/prepare new/workspace/prepare || die "init --template"
mkdir in && cd in && wrong 0 "word2vec/conf.ini" init --template=word2vec && cd ..
wrong 2 "unexpected word" init --template word2vec a b
wrong 2 "no template 'nope'" init --template nope
wrong 0 "new/conf.ini:" conf --conf=new/conf.ini

# --- split
printf 'a\nb\nc\n' >lines
wrong 0 lines split --shards=2 --out=shards lines
[ "$(cat shards/train.txt-00000 | tr '\n' ' ')" = "a c " ] || die "split: $(cat shards/*)"

# --- nothing was written beside what we wrote ourselves
[ ! -e output ] || die "an output folder"
exit 0
