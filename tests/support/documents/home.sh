# SPDX-License-Identifier: Apache-2.0
# home.sh - sourced after lib.sh: the home of a user who has three hosts, node-1 to node-3, in
# ~/.ssh/config. Commands of the documents run there.
#
#   home_start FOLDER     sets HOME, PATH and PADDLE_MACHINE; HOME/hosts is the fixture of the sshds
#   home_stop             ends the sshds

home_start() {
    local i=0 host
    mkdir -p "$1" && HOME=$(cd -P "$1" && pwd -P) || return 1
    export HOME PATH="$BIN:$PATH"
    unset SSH_AUTH_SOCK
    "$TOP/tests/support/sshd-fixture" start "$HOME/hosts" 3 || return 1
    mkdir -m 700 "$HOME/.ssh" && cp "$HOME/hosts/known_hosts" "$HOME/.ssh/known_hosts" || return 1
    # ssh looks for ~/.ssh/config in the account's home, not in HOME.
    mkdir "$HOME/bin" && printf '#!/bin/sh\nexec %s -F "$HOME/.ssh/config" "$@"\n' \
        "$(command -v ssh)" >"$HOME/bin/ssh" && chmod +x "$HOME/bin/ssh" && PATH="$HOME/bin:$PATH"
    for host in $(tr -d ' ' <"$HOME/hosts/hosts" | tr ',' ' '); do
        i=$((i + 1)) host=${host#*@}
        printf 'Host node-%d\n    HostName %s\n    Port %s\n    IdentityFile %s\n    UserKnownHostsFile %s\n' \
            "$i" "${host%:*}" "${host#*:}" "$HOME/hosts/client_key" \
            "$HOME/.ssh/known_hosts" >>"$HOME/.ssh/config"
    done
}

home_stop() { [ ! -d "$HOME/hosts" ] || "$TOP/tests/support/sshd-fixture" stop "$HOME/hosts"; }
