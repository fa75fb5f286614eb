# SPDX-License-Identifier: Apache-2.0
# kube.sh - sourced after lib.sh: a test of engine = kubernetes in $TMP, with a conf.ini of three nodes,
# two of them with pservers, a workspace, and the kubectl of the tests first in PATH.
#
#   $real_kubectl   the machine's own; "": none
#   x COMMAND ...   paddlectl with this conf.ini
#   gone WHAT       fails if objects or processes are left
. "$TOP/tests/support/tiny_model.sh"
ctl=$BIN/paddlectl
cd "$TMP" || die cd
export KUBE_STATE=$TMP/cluster
mkdir bin "$KUBE_STATE"
ln -s "$TOP/tests/support/kube/kubectl" bin/kubectl
real_kubectl=$(command -v kubectl)
PATH=$TMP/bin:$PATH
on_cleanup() { kubectl end >/dev/null; }

tiny_data ws/data
tiny_model vocabulary=300 test='data/*' </dev/null >ws/train.ini
printf '#!/bin/sh\nexec sleep 305.%s\n' $$ >ws/wait.sh
chmod +x ws/wait.sh
cat >conf.ini <<END
[cluster]
engine = kubernetes
nodes = 3
pservers = 2
port = $((10000 + RANDOM % 10000))
[kubernetes]
namespace = ml
context = test
[job]
job_dispatch_package = ws
attach_lease = 3
[train]
num_passes = 2
END
x() { "$ctl" "$@" --conf=conf.ini; }
processes() { pgrep -f "$KUBE_STATE/pods/|^sleep 305.$$"; }
gone() {
    wait_for 30 "no process is left" eval '! processes'
    local left
    left=$(kubectl end) || die "after $*: $left"
}
trainers() { [ "$(pgrep -fc "^sleep 305.$$")" = "$1" ]; }
