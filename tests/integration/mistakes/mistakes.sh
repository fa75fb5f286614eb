#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A table of the mistakes of users. Each row makes one mistake in a job that is otherwise good:
#
#     row NAME STATUS CAUSE NEXT COMMANDS
#
# The program must end with STATUS. One line must name the CAUSE with its file and line, option, host
# or process, once. The message must name the NEXT command, or the word or value that is right.
# row() also checks what holds for every screen: no control characters, no long lines, and nothing
# that stays behind.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
unset SSH_AUTH_SOCK SSH_ASKPASS
export PADDLECTL=$BIN/paddlectl
on_cleanup() { hosts_end; }
mkdir -p "$TMP/local/workspace/data" "$TMP/local/workspace/test"
cd "$TMP/local" || die cd
cat >conf.ini <<END
[cluster]
hosts = local*2
pservers = all
trainers = all
root_dir = $TMP/t/root%n
port = 0
[groups]
gpus = a[1-2]
[job]
job_dispatch_package = ./workspace
[train]
num_passes = 1
END
cat >workspace/train.ini <<'END'
[data]
format = csv
train = data/*
test = test/*
columns = x y
fields = x:dense y:dense
[layer line]
type = fc
inputs = x
size = 1
act = linear

[cost c]
type = square_error
input = line
label = y

[optimizer]
type = momentum
learning_rate = 0.01
momentum = 0.9

[train]
batch_size = 4
END
printf '#!/bin/sh\necho data\n' >workspace/prepare
chmod +x workspace/prepare
for f in data/a data/b test/a test/b; do
    printf '%s\n' 1,2 2,4 3,6 4,8 5,10 6,12 >workspace/$f
done
ssh_hosts 2
hosts=$(cat "$fx/hosts") A=${hosts%%,*} B=${hosts#*, }
ssh-keygen -q -t ed25519 -N '' -f "$TMP/other_key"
sed -E '1s/[^ ]+$/AAAAC3NzaC1lZDI1NTE5AAAAIKg6QkTmXDQ4wLjd5Iv+R1rP1xQxgpW5fJ5o6Y9aAAAA/' \
    "$fx/known_hosts" >"$TMP/known_changed"
cp -R "$TMP/local" "$TMP/far"
{ cat "$fx/conf.ini"; sed -n '6,$p' conf.ini; } | sed '/^\[ssh\]/,/^config/d' >"$TMP/far/conf.ini"
sed -n '/^\[ssh\]/,/^config/p' "$fx/conf.ini" >>"$TMP/far/conf.ini"

# --- the means of the rows
ctl() { "$BIN/paddlectl" "$@"; }
conf() { sed -i "$1" conf.ini; }
ini() { sed -i "$1" workspace/train.ini; }
# ctrl_c TEXT ARGS...: paddlectl, with Ctrl-C as soon as its output has the text
ctrl_c() {
    local text=$1
    shift
    start pressed "$BIN/paddlectl" "$@"
    wait_for 60 "'$text' before Ctrl-C" grep -q -- "$text" "$TMP/pressed.log"
    kill -INT "$PID"
    wait "$PID"
    set -- $?
    cat "$TMP/pressed.log"
    return "$1"
}

no_process() { "$fixture" left "$fx" && ! ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q "$TMP/t/root"; }
no_folder() { ! ls -d "$TMP"/t/root*/JOB* "$fx"/node*/root/JOB* 2>/dev/null; }
screen() { # what holds for every output
    local long
    LC_ALL=C grep -n '[[:cntrl:]]' <<<"$OUT" && die "$1: control characters: $OUT"
    # A path may make a line long, and the fingerprint of a key with the command that accepts it.
    long=$(sed -E '/SHA256:/d; s,[^ ]*/[^ ]*,,g' <<<"$OUT" | grep -E '.{141}') && die "$1: long: $long"
}
N=0 NAMES=' ' FROM=local
row() { # row NAME STATUS CAUSE NEXT COMMANDS
    local name=$1 want=$2 cause=$3 next=$4 got told
    [[ $NAMES != *" $name "* ]] && [ -n "$cause" ] && [ -n "$next" ] || die "$name: not a row"
    NAMES+="$name " N=$((N + 1))
    rm -rf "$TMP/t" "$fx"/node*/root
    cp -R "$TMP/$FROM" "$TMP/t"
    cd "$TMP/t" || die cd
    OUT=$(eval "$5" 2>&1 </dev/null)
    got=$?
    [ $got = "$want" ] || die "$name: exit status $got, not $want: $OUT"
    has "$cause"
    has "$next"
    screen "$name"
    # A failed process has said it in its log, which stands above the report.
    told=$OUT
    [ "$want" != 1 ] || told=$(sed -n '/JOB[^ ]* failed: /,$p' <<<"$OUT")
    [ "$(grep -oF -- "$cause" <<<"$told" | wc -l)" = 1 ] || die "$name: not told once: $OUT"
    wait_for 30 "$name: no process" no_process
    case $want in
    2 | 3 | 255)
        wait_for 30 "$name: no folder of a job" no_folder
        [ ! -e output ] || die "$name: an output folder"
        [[ $OUT == *JOB2* ]] || [ ! -e root0 ] || die "$name: root_dir was made: $(find root*)"
        ;;
    esac
}

# --- the command line
help="see 'paddlectl run --help'"
row no_command 2 "usage: paddlectl COMMAND" "run        dispatch, start, follow" "ctl"
row command_typo 2 "there is no command 'rnu'" "did you mean 'run'?" "ctl rnu"
row command_unknown 2 "there is no command 'launch'" "'paddlectl help' lists them" "ctl launch"
row help_of_nothing 2 "there is no command 'wibble'" "'paddlectl help' lists them" "ctl help wibble"
row option_typo 2 "unknown option --num_pases" "did you mean --num_passes?" "ctl run --num_pases=3"
row option_unknown 2 "unknown option --machines" "$help" "ctl run --machines=2"
row option_of_engine 2 "nodes is for engine = slurm and kubernetes" "hosts names the nodes" \
    "ctl run --nodes=2"
row option_empty 2 "--num_passes needs a value" "$help" "ctl run --num_passes"
row option_value 2 "--num_passes: num_passes is 1..1000000 passes, not 'many'" "$help" \
    "ctl run --num_passes=many"
row option_choice 2 "update is one of sync|async|ssp|geo, not 'asink'" "$help" \
    "ctl run --update=asink"
row option_size 2 "store_limit is 0..1024T bytes (suffixes K, M, G), not '10GB'" "$help" \
    "ctl run --store_limit=10GB"
row flag_value 2 "--wait is 0 or 1, not '5'" "$help" "ctl run --wait=5"
row extra_word 2 "unexpected word 'extra'" "$help" "ctl run extra"
row original_option 2 "--dot_period has no meaning here" "log_period" "ctl run --dot_period=1"
row original_local 2 "--local has no meaning here" "--hosts=local trains on this machine" \
    "ctl run --local"
row words_for_nobody 2 "the words after -- are options of a program of your own" \
    "set trainer_command, or leave out the --" "ctl run -- --lr=1"
row set_without_section 2 "--set learning_rate=1: a setting is written SECTION.KEY=VALUE" \
    "such as optimizer.learning_rate=0.1" "ctl run --set learning_rate=1"
row set_key_typo 2 "--set optimizer.learning_rat=1: an optimizer has no setting 'learning_rat'" \
    "did you mean 'learning_rate'?" "ctl run --set optimizer.learning_rat=1"
row set_layer_typo 2 "--set layer.lin.size=2: there is no layer 'lin'" "did you mean 'line'?" \
    "ctl run --set layer.lin.size=2"

# --- conf.ini
row conf_missing 2 "there is no conf.ini here" "make one with 'paddlectl init'" "rm conf.ini; ctl run"
row conf_elsewhere 2 "cannot open conf.in: No such file" "'paddlectl init' makes a conf.ini" \
    "ctl run --conf=conf.in"
row conf_is_folder 2 "workspace is a folder" "give a file, as in --conf=workspace/conf.ini" "ctl run --conf=workspace"
row conf_key_typo 2 "conf.ini:2: unknown option 'hosst'" "did you mean 'hosts'?" \
    "conf 's/^hosts/hosst/'; ctl run"
row conf_key_unknown 2 "conf.ini:13: unknown option 'color'" "'paddlectl conf' lists the options" \
    "echo 'color = red' >>conf.ini; ctl run"
row conf_section_typo 2 "conf.ini:1: unknown section [clutser]" "did you mean [cluster]?" \
    "conf 's/^.cluster/[clutser/'; ctl run"
row conf_wrong_section 2 "conf.ini:13: 'port' does not belong to [train]" "but to [cluster]" \
    "echo 'port = 80' >>conf.ini; ctl run"
row conf_no_equals 2 "conf.ini:2: neither" "'name = value' nor '[section]'" \
    "conf 's/^hosts =/hosts/'; ctl run"
row conf_twice 2 "conf.ini:13: num_passes is set twice" "first in line 12" \
    "echo 'num_passes = 3' >>conf.ini; ctl run"
row conf_value 2 "conf.ini:6: port is 0..65535, not '70000'" "0..65535" \
    "conf 's/^port.*/port = 70000/'; ctl run"
row env_name 2 "conf.ini:14: 'A B' is no name" "write NAME = value" \
    "printf '[env]\nA B = 2\n' >>conf.ini; ctl run"
row host_section 2 "conf.ini:13: [host b]: there is no such host" "the list of conf.ini:2" \
    "printf '[host b]\nuser = x\n' >>conf.ini; ctl run"
row root_dir_empty 2 "conf.ini:5: root_dir is empty" "root_dir = ~/paddle" \
    "conf 's/^root_dir.*/root_dir =/'; ctl run"
row root_dir_of_all 2 "conf.ini:5: root_dir is /, a folder of the system" "root_dir = ~/paddle" \
    "conf 's,^root_dir.*,root_dir = /,'; ctl run"
row root_dir_of_system 2 "conf.ini:5: root_dir is //usr/, a folder of the system" "root_dir = ~/paddle" \
    "conf 's,^root_dir.*,root_dir = //usr/,'; ctl run"
row root_dir_shared 2 "share root_dir" "use %n in root_dir" \
    "conf 's/%n//'; ctl run"

# --- the list of hosts, and who runs what
row hosts_missing 2 "there are no hosts" "conf.ini needs [cluster] hosts = ..., or give --hosts=" \
    "conf /^hosts/d; ctl run"
row hosts_empty 2 "conf.ini:2: hosts is empty" "as in hosts = root@192.168.1.[10-17], or local" \
    "conf 's/^hosts.*/hosts =/'; ctl run"
row hosts_semicolon 2 "conf.ini:2: not a host: 'a;'" "with commas between them" \
    "conf 's/^hosts.*/hosts = a; b/'; ctl run"
row hosts_backwards 2 "conf.ini:2: the range in 'a[3-1]'" "write the smaller number first" \
    "conf 's/^hosts.*/hosts = a[3-1]/'; ctl run"
row hosts_bracket 2 "in 'a[1-3'" "']' is missing" "conf 's/^hosts.*/hosts = a[1-3/'; ctl run"
row hosts_twice 2 "conf.ini:2: host a is given twice" "as entries 1 and 3 of the list: remove one" \
    "conf 's/^hosts.*/hosts = a, b, a/'; ctl run"
row hosts_group 2 "conf.ini:2: @gpu is neither a group of [groups] nor a file" \
    "did you mean @gpus?" "conf 's/^hosts.*/hosts = @gpu/'; ctl run"
row hosts_minus 2 "conf.ini:2: !b removes b" "write it behind its host" \
    "conf 's/^hosts.*/hosts = a, !b/'; ctl run"
row hosts_port 2 "--hosts: port of a:99999" "as in host:22" "ctl run --hosts=a:99999"
row hosts_ipv6 2 "write an IPv6 address in brackets" "'[fe80::1]'" "ctl run --hosts=fe80::1"
row hosts_local 2 "--hosts: local is given twice" "write local*N for N nodes here" \
    "ctl run --hosts=local,local"
row trainers_many 2 "conf.ini:4: trainers: 3 nodes wanted" "add hosts, or write trainers = all" \
    "conf 's/^trainers.*/trainers = 3/'; ctl run"
row trainers_word 2 "conf.ini:4: trainers: write all, none, a number, or nodes 0-3,7" \
    "not 'some'" "conf 's/^trainers.*/trainers = some/'; ctl run"
row trainers_node 2 "conf.ini:4: trainers: there is no node 9" "the 2 hosts are nodes 0 to 1" \
    "conf 's/^trainers.*/trainers = nodes 0-9/'; ctl run"
row no_pserver 2 "conf.ini:3: the built-in trainer needs at least one pserver" \
    "set trainer_command to run a program of your own" \
    "conf 's/^pservers.*/pservers = none/'; ctl run"
row no_trainer 2 "conf.ini:4: the built-in pserver needs at least one trainer" \
    "set pserver_command to run a program of your own" \
    "conf 's/^trainers.*/trainers = none/'; ctl run"
row min_nodes 2 "--min-nodes: min_nodes is 3" "give at most --min-nodes=2" "ctl run --min-nodes=3"

# --- the workspace
row no_workspace 2 "conf.ini:10: cannot read the workspace ./workspace: No such file" \
    "'paddlectl init' makes one" "rm -r workspace; ctl run"
row workspace_is_file 2 "conf.ini is neither a folder nor a tar archive" "--job_dispatch_package" \
    "ctl run --job_dispatch_package=conf.ini"
row workspace_on_nodes 2 "job_workspace /nowhere is not a folder on this node" \
    "'paddlectl check' tests the hosts" "ctl run --job_workspace=/nowhere"
row no_train_ini 2 "cannot open ./workspace/train.ini: No such file" "'paddlectl init' copies" \
    "rm workspace/train.ini; ctl run"
row other_train_ini 2 "cannot open ./workspace/other.ini: No such file" "--config names the file" \
    "ctl run --config=other.ini"
row prepare_forgotten 2 "train.ini:3: no file of the workspace matches train = data/*" \
    "run './workspace/prepare' first" "rm -r workspace/data; ctl run"
row no_test_data 2 "train.ini:4: no file of the workspace matches test = test/*" \
    "run './workspace/prepare' first" "rm -r workspace/test; ctl run"
row few_files 2 "train.ini:3: train = data/* matches 1 file for 2 streams" \
    "'paddlectl prepare' and 'paddlectl split' take --shards=2" \
    "rm workspace/data/b; ctl run"
row data_from_outside 2 "train.ini:3: no file of the workspace matches train = workspace/data/*" \
    "write train = data/*" "ini 's,^train = ,&workspace/,'; ctl run"
row data_ignored 2 "train.ini:3: the files that match train = data/* are left out" \
    "'paddlectl dispatch --dry-run' lists them" "echo data >workspace/.paddleignore; ctl run"
row no_pattern 2 "[data] has no train" "the pattern of the training files" "ini '/^train = /d'; ctl run"
row model_missing 2 "--init_model_path: the workspace has no folder models/a" \
    "a folder of the nodes begins with /" "ctl run --init_model_path=models/a"

# --- train.ini
row section_typo 2 "train.ini:7: unknown section [layr line]" "did you mean 'layer'?" \
    "ini 's/^.layer/[layr/'; ctl run"
row layer_type 2 "train.ini:8: unknown layer type 'fcc'" "did you mean 'fc'?" \
    "ini 's/^type = fc/&c/'; ctl run"
row layer_act 2 "train.ini:11: unknown activation 'liner'" "did you mean 'linear'?" \
    "ini 's/^act.*/act = liner/'; ctl run"
row layer_key 2 "train.ini:10: unknown key 'siez' in [layer]" "did you mean 'size'?" \
    "ini 's/^size/siez/'; ctl run"
row layer_size 2 "train.ini:10: size is a whole number from 1 to 16777216" "not 'eight'" \
    "ini 's/^size.*/size = eight/'; ctl run"
row layer_input 2 "train.ini:9: layer 'line': there is no layer or field called 'z'" "(known: x, y, line)" \
    "ini 's/^inputs.*/inputs = z/'; ctl run"
row layer_pairs 2 "train.ini:9: layer 'line': fm of one vector has no pairs" \
    "pooling = fm or bi_interaction" "ini 's/^type = fc/type = fm/; s/^size/dim/'; ctl run"
row cost_type 2 "train.ini:14: unknown cost type 'square'" "(known: cross_entropy" \
    "ini 's/^type = square_error/type = square/'; ctl run"
row no_cost 2 "train.ini: there is no section [cost NAME]" "with type, input and label" \
    "ini '/^.cost/,/^$/d'; ctl run"
row cost_label 2 "train.ini:16: cost 'c': its label 'z' is not a field" "(known: x, y)" \
    "ini 's/^label.*/label = z/'; ctl run"
row no_optimizer 2 "train.ini: there is no section [optimizer]" "with type and learning_rate" \
    "ini '/^.optimizer/,/^$/d'; ctl run"
row optimizer_type 2 "train.ini:19: there is no optimizer 'adm'" "did you mean 'adam'?" \
    "ini 's/^type = momentum/type = adm/'; ctl run"
row rate_typo 2 "train.ini:20: an optimizer has no setting 'learning_rat'" \
    "did you mean 'learning_rate'?" "ini 's/^learning_rate/learning_rat/'; ctl run"
row rate_word 2 "train.ini:20: learning_rate is a number from 0 to 1e+06" "not 'fast'" \
    "ini 's/^learning_rate.*/learning_rate = fast/'; ctl run"
row train_key 2 "train.ini:24: unknown option 'batch_sise'" "did you mean 'batch_size'?" \
    "ini 's/^batch_size/batch_sise/'; ctl run"
row batch_small 2 "train.ini:24: batch_size is 1, fewer than one sample" "give at least 2" \
    "ini 's/^batch_size.*/batch_size = 1/'; ctl run"
row data_format 2 "train.ini:2: unknown data format 'cvs'" "did you mean 'csv'?" \
    "ini 's/^format.*/format = cvs/'; ctl run"
row field_type 2 "train.ini:6: field 'y' has no type" "NAME:TYPE in fields" \
    "ini 's/y:dense/y/'; ctl run"
row model_file 2 "cannot open nope.ini: No such file" "paddlectl: " "ctl conf --model nope.ini"
row queue_in_step 2 "--data: data = queue needs update = async, ssp or geo" "give --update=async" \
    "ctl run --data=queue"
row test_of_nothing 2 "--job: job = test needs init_model_path" "give --init_model_path=FOLDER" \
    "ctl run --job=test"
row copies_of_one 2 "--checkpoint_copies: checkpoint_copies = 2 needs a second pserver" \
    "give --pservers=2 or more" "ctl run --checkpoint_copies=2 --pservers=1"
row data_of_one 2 "--data_copies: data_copies = 2 needs a second node to keep the copies" "add a host" \
    "ctl run --data_copies=2 --hosts=local"
row data_local 2 "--data_copies: data_copies = 2 needs data files that paddlectl sends" "data_layout = dispatched" \
    "ctl run --data_copies=2 --data_layout=local"

# --- a job that fails: the first failed process, its last words, its logs
logs="'paddlectl fetch --log JOB"
row bad_line 1 "data/a:3: 'oops' is not a number" "$logs" "sed -i '3s/.*/oops,1/' workspace/data/a; ctl run"
row empty_data 1 "train.ini:3: there is no sample in the files of 'train = data/*'" "$logs" \
    "truncate -s 0 workspace/data/*; ctl run"
row rate_high 1 "is not a finite number" "$logs" \
    "ctl run --set optimizer.learning_rate=1e6 --num_passes=90"
row no_program 1 "./nope: not found" "$logs" "ctl run --trainer_command=./nope --pservers=none"
row killed 1 "ended by signal 9 (Killed)" "$logs" \
    "ctl run --trainer_command='kill -9 \$\$' --pservers=none"
row no_checkpoint 1 "there is no checkpoint nope/pass-00000" "--resume=JOB continues a job" \
    "ctl run --resume=nope/pass-00000"
row ctrl_c 130 "was stopped" "Ctrl-C: stopping JOB" \
    "ctrl_c 'trainers: 0' run --trainer_command='sleep 100' --pservers=none"

# --- jobs, models and data that are not there
row stop_nothing 2 "no job is running" "'paddlectl ps' lists the jobs" "ctl stop"
row attach_nothing 2 "no job is running" "'paddlectl ps' lists the jobs" "ctl attach"
row fetch_nothing 2 "no host of conf.ini has a job" "'paddlectl run' starts one" "ctl fetch"
row logs_of_nothing 2 "no host of conf.ini has a job JOB1" "'paddlectl ps' lists the jobs" \
    "ctl logs JOB1"
row resume_nothing 2 "--resume: no host of conf.ini has a job JOB123" "'paddlectl ps' lists" \
    "ctl run --resume=JOB123"
row logs_since 2 "--since is a span like 10m or 1h30m" "not 'yesterday'" "ctl logs --since=yesterday"
row logs_grep 2 "--grep: '(' is not a regular expression" "before a character takes its meaning away" "ctl logs --grep='('"
row exec_nothing 2 "no command given" "see 'paddlectl exec --help'" "ctl exec"
row exec_node 2 "--node: there is no node 7" "'paddlectl conf --nodes' shows the hosts" \
    "ctl exec --node=7 true"
row infer_without 2 "no data given" "use --data=FILE, or --data=- for standard input" "ctl infer"
row infer_model 2 "no model given, and output has none" "use --model=FOLDER" \
    "ctl infer --data=conf.ini"
row infer_no_model 2 "there is no complete saved model in nope" "--model=FOLDER" \
    "ctl infer --model=nope --data=conf.ini"
row export_without 2 "no output given" "use --out=FILE" "ctl export"
row export_no_model 2 "no model given, and output has none" "use --model=FOLDER" "ctl export --out=x"
row init_typo 2 "there is no template 'word2vce'" "'paddlectl init' lists them" "ctl init word2vce"
row init_twice 2 "workspace already has a conf.ini" "give another folder, as in" \
    "touch workspace/conf.ini; ctl init fit_a_line workspace"
row prepare_nothing 2 "no input files given" "see 'paddlectl prepare --help'" "ctl prepare"
row prepare_format 2 "unknown data format 'criteoo'" "did you mean 'criteo'?" \
    "ctl prepare --format=criteoo conf.ini"
row split_shards 2 "number of shards missing" "--shards" "ctl split conf.ini"

# --- hosts
FROM=far check="'paddlectl check' tests the hosts and names remedies"
row host_port 3 "127.0.0.1: cannot connect to port 1: Connection refused" \
    "the port of its sshd is written user@host:port" "ctl run --hosts='${A%:*}:1, $B'"
row host_name 3 "nowhere.invalid: cannot resolve the name" "$check" \
    "ctl run --hosts='$A, nowhere.invalid'"
row host_wrong 3 "nowhere.invalid: cannot resolve the name" "$check" "ctl run --hosts=nowhere.invalid"
has_not "on 1 node" # no host was reached: the cause comes first
row host_unknown 3 "127.0.0.1: the host key of" "--host_key_policy=accept-new" \
    "ctl run --hosts=$A --known_hosts=/dev/null"
row host_key_changed 3 "127.0.0.1: $TMP/known_changed:1: HOST KEY CHANGED" "ssh-keygen -R" \
    "ctl run --known_hosts=$TMP/known_changed"
row key_refused 3 "127.0.0.[1-2]: authentication failed for user" "$check" \
    "ctl run --identity_file=$TMP/other_key"
row key_open 3 "not used: mode 0644 is too open" "'chmod 600'" \
    "cp $fx/client_key k; chmod 644 k; ctl run --identity_file=k"
row key_missing 2 "cannot read the private key nokey: No such file" "nokey" \
    "ctl run --identity_file=nokey"
row known_hosts_missing 2 "cannot read the known hosts file nofile: No such file" "nofile" \
    "ctl run --known_hosts=nofile"
row jump_host 3 "127.0.0.[1-2]: jump host ${A%:*}:1: cannot connect to port 1" "$check" \
    "ctl run --proxy_jump=${A%:*}:1"
row root_dir_file 3 "127.0.0.[1-2]: cannot make the folder" "$check" \
    "ctl run --root_dir=$TMP/other_key/x"
row nic 3 "127.0.0.[1-2]: no interface or address here matches nic = eth99" "there are: " \
    "ctl run --nic=eth99"
row check_host 3 "cannot connect to port 1: Connection refused" "-> is sshd running there, on that port?" \
    "ctl check --hosts='${A%:*}:1'"
row exec_host 255 "127.0.0.1: cannot connect to port 1" "the port of its sshd is written user@host:port" \
    "ctl exec --hosts=${A%:*}:1 true"
row stop_unreachable 3 "127.0.0.1: cannot connect to port 1" \
    "no job is running on the reachable hosts" "ctl stop --hosts='${A%:*}:1, $B'"
row fetch_unreachable 3 "127.0.0.1: cannot connect to port 1" "no reachable host of conf.ini" \
    "ctl fetch --hosts=${A%:*}:1"
row far_bad_line 1 "data/b:2: 'oops' is not a number" "127.0.0.2 (node 1), trainer 1: exit status 1" \
    "sed -i '2s/.*/oops,1/' workspace/data/b; ctl run"

# --- the first hour: each step names the next one
rm -rf "$TMP/t" "$fx"/node*/root
mkdir "$TMP/t" && cd "$TMP/t" || die cd
expect 0 ctl init fit_a_line
screen init
has "fit_a_line/conf.ini: enter your hosts here"
has "then: fit_a_line/workspace/prepare makes the data, and 'paddlectl run' in fit_a_line"
cd fit_a_line || die cd
sed -i "s,^root_dir.*,root_dir = $TMP/t/root%n," conf.ini
expect 2 ctl run
has "run './workspace/prepare' first"
expect 0 ./workspace/prepare --rows=60
screen prepare
expect 0 ctl run --num_passes=2
screen run
next=$(sed -n 's/^paddlectl | next: paddlectl \(infer --model=[^ ]*\) --data=FILE$/\1/p' <<<"$OUT")
[ -n "$next" ] || die "run names no next command: $OUT"
# shellcheck disable=SC2086
expect 0 ctl $next --data=workspace/test_data_dir/test.txt-00000
screen infer
wait_for 30 "no process" no_process

[ $N -ge 64 ] || die "only $N mistakes"
echo "$N mistakes"
exit 0
