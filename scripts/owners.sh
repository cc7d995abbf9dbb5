# shellcheck shell=bash
# Processes of several owners on this machine, each with a data folder in `work` and the configuration OWNER.toml in
# `configurations`. They listen on loopback, unless the script has hosts for them. Sourced after scripts/lib.sh.

work=${work:?} configurations=${configurations:?}
declare -A pids=() ports=()
free_port=$((20000 + $$ % 20000))

# tenure_of OWNER ARGUMENT...: a command on that owner's process.
tenure_of() {
    "$TENURE" "${@:2}" --data "$work/$1"
}

# listen_of OWNER: the IP address at which the process of an owner listens.
listen_of() {
    echo 127.0.0.1
}

# on_host OWNER COMMAND...: runs a command on the host of an owner, in the place of this process.
on_host() {
    exec "${@:2}"
}

# settings OWNER: settings of an owner beside its configuration, one a line.
settings() {
    :
}

# start OWNER OPTION...: starts the process of an owner, or starts it again.
start() {
    if [[ -z ${ports[$1]:-} ]]; then
        ports[$1]=$free_port
        free_port=$((free_port + 1))
    fi
    local set=() setting
    while read -r setting; do
        set+=(--set "$setting")
    done < <(settings "$1")
    on_host "$1" "$TENURE" up --config "$configurations/$1.toml" --data "$work/$1" \
        --set "listen=$(listen_of "$1"):${ports[$1]}" "${set[@]}" "${@:2}" >>"$work/$1.log" 2>&1 &
    pids[$1]=$!
}

# Waits until a process takes commands.
is_there() {
    until_true 60 is_up "$work/$1" || {
        cat "$work/$1.log" >&2
        fail "$1 does not come up"
    }
}

# Starts several, and waits until all take commands.
start_all() {
    local owner
    for owner in "$@"; do
        start "$owner"
    done
    for owner in "$@"; do
        is_there "$owner"
    done
}

# Kills a process, as a machine that fails would.
kill_hard() {
    kill -KILL "${pids[$1]}"
    wait "${pids[$1]}" 2>/dev/null || true
    unset "pids[$1]"
}

# Ends all processes in good order.
stop_all() {
    local owner
    for owner in "${!pids[@]}"; do
        kill -CONT "${pids[$owner]}" 2>/dev/null || true
        kill "${pids[$owner]}" 2>/dev/null || true
        wait "${pids[$owner]}" 2>/dev/null || true
        unset "pids[$owner]"
    done
}

# befriend INVITER GUEST WHAT OTHER...: two brokers become peers by a line that one prints and the other is given.
befriend() {
    local line
    line=$(tenure_of "$1" peer invite --of "$1" --as "$3" -o json | jq -r .invitation)
    tenure_of "$2" peer join "$line" "${@:4}" --wait >"$work/last"
}
