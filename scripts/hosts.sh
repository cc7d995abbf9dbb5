# shellcheck shell=bash
# Network namespaces that stand for hosts of owners on one network. Sourced after scripts/lib.sh.

declare -A address=() # of each owner's host; set by the script
hosts=()

# can_have_hosts KIND OPTION...: whether namespaces, and interfaces of that kind, can be made here.
can_have_hosts() {
    ((EUID == 0)) && unshare --net ip link add name probe type "$@" 2>/dev/null
}

# host OWNER: the network namespace that stands for the owner's host.
host() {
    printf 'tenure%s-%s' "$$" "$1"
}

# Makes the hosts of all owners that have an address, and a network that they share.
make_hosts() {
    local owner switch
    switch=$(host switch)
    ip netns add "$switch"
    hosts+=("$switch")
    ip -n "$switch" link add name lan type bridge
    ip -n "$switch" link set dev lan up
    for owner in "${!address[@]}"; do
        make_host "$switch" "$owner"
    done
}

# make_host SWITCH OWNER: makes a host, whose address is at a bridge, `lan0`, that can have further ports.
make_host() {
    local switch=$1 owner=$2 here
    here=$(host "$owner")
    ip netns add "$here"
    hosts+=("$here")
    ip link add name eth0 netns "$here" type veth peer name "$owner" netns "$switch"
    ip -n "$switch" link set dev "$owner" master lan up
    ip -n "$here" link add name lan0 type bridge
    ip -n "$here" address add "${address[$owner]}/16" dev lan0
    ip -n "$here" link set dev eth0 master lan0 up
    ip -n "$here" link set dev lan0 up
    ip -n "$here" link set dev lo up
}

# set_link OWNER up|down: connects a host with the network, or cuts it off.
set_link() {
    ip -n "$(host switch)" link set dev "$1" "$2"
}

remove_hosts() {
    local space
    for space in "${hosts[@]}"; do
        ip netns del "$space" || true
    done
    hosts=()
}
