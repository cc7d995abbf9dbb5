#!/bin/sh
# A Grid Engine in a network of its own, which has no way out: cluster FOLDER prepare|inside|configure, up|down HOST
set -eu
folder=$1
export SGE_ROOT="$folder/root" SGE_CELL=default SGE_QMASTER_PORT=16444 SGE_EXECD_PORT=16445
case $2 in
prepare)
    mkdir -p "$SGE_ROOT/default/common" "$folder/qmaster/job_scripts" "$folder/spool" "$folder/execd"
    for name in bin lib util utilbin; do
        ln -s "/var/lib/gridengine/$name" "$SGE_ROOT/$name"
    done
    sed -e "s,^spooling_params.*,spooling_params $folder/spool," \
        -e "s,^qmaster_spool_dir.*,qmaster_spool_dir $folder/qmaster," \
        /usr/share/gridengine/default-bootstrap >"$SGE_ROOT/default/common/bootstrap"
    echo geq >"$SGE_ROOT/default/common/act_qmaster"
    {
        echo '127.0.0.1 localhost'
        echo '10.99.0.1 geq'
        for unit in 0 1 2 3 4 5 6 7 9; do echo "10.99.0.1$unit e$unit"; done
    } >"$folder/hosts"
    chown -R sgeadmin:sgeadmin "$SGE_ROOT" "$folder/qmaster" "$folder/spool" "$folder/execd"
    setpriv --reuid sgeadmin --regid sgeadmin --init-groups \
        /usr/share/gridengine/scripts/init_cluster "$SGE_ROOT" default "$folder/spool" sgeadmin
    ;;
inside)
    mount --make-rprivate /
    mount -t tmpfs tmpfs /run
    mkdir /run/netns /run/gridengine
    mount --bind "$folder/hosts" /etc/hosts
    hostname geq
    ip link set lo up
    ip link add bridge type bridge
    ip addr add 10.99.0.1/24 dev bridge
    ip link set bridge up
    sge_qmaster
    exec tail -f /dev/null
    ;;
configure)
    edited() { qconf "$1" >"$folder/edited"; shift; for edit; do sed -i "s,^$edit,"  "$folder/edited"; done; }
    edited -sconf 'load_report_time.*,load_report_time 00:00:01' "execd_spool_dir.*,execd_spool_dir $folder/execd" \
        'gid_range.*,gid_range 20000-20100'
    mv "$folder/edited" "$folder/global"
    qconf -Mconf "$folder/global"
    edited -ssconf 'schedule_interval.*,schedule_interval 0:0:1' 'flush_submit_sec.*,flush_submit_sec 1' \
        'flush_finish_sec.*,flush_finish_sec 1'
    qconf -Msconf "$folder/edited"
    printf 'group_name @leased\nhostlist NONE\n' >"$folder/edited"
    qconf -Ahgrp "$folder/edited"
    edited -sq 'qname.*,qname main.q' 'hostlist.*,hostlist @leased' 'slots .*,slots 2' 'rerun .*,rerun TRUE' \
        'load_thresholds.*,load_thresholds NONE' 'pe_list.*,pe_list NONE'
    qconf -Aq "$folder/edited"
    qconf -as geq
    {
        qconf -sc
        echo 'tenure tenure STRING == NO NO NONE 0'
        echo 'tenure_licences tenure_licences STRING == NO NO NONE 0'
        echo 'lic lic INT <= YES YES 0 0'
    } >"$folder/complexes"
    qconf -Mc "$folder/complexes"
    # A host of somebody else.
    qconf -ah e9
    qconf -se global | sed -e 's,^hostname.*,hostname e9,' -e '/^load_values/d' -e '/^processors/d' >"$folder/edited"
    qconf -Ae "$folder/edited"
    ;;
up)
    ip netns add "$3"
    ip link add "v$3" type veth peer name eth0 netns "$3"
    ip link set "v$3" master bridge up
    ip -n "$3" link set lo up
    ip -n "$3" addr add "10.99.0.1${3#e}/24" dev eth0
    ip -n "$3" link set eth0 up
    mkdir -p "$folder/execd/$3"
    chown sgeadmin "$folder/execd/$3"
    # Each with its own processes: two daemons in one namespace kill each other's jobs. They are in a session of
    # their own before this program ends, and its process group with it.
    setsid --wait sh -c "
        ip netns exec $3 unshare --uts --pid --fork --mount-proc --kill-child sh -c '
            hostname $3; mount -t tmpfs tmpfs /run; mkdir /run/gridengine; sge_execd; exec tail -f /dev/null
        ' </dev/null >$folder/log.$3 2>&1 &
        echo \$! >$folder/pid.$3
    "
    ;;
down)
    # Its daemon was told to end, and is given a while to do so.
    tries=0
    while [ $tries -lt 50 ] && ps -o comm= -p "$(ip netns pids "$3" | tr '\n' ,)0" | grep -q sge_execd; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -KILL "$(cat "$folder/pid.$3")"
    ip netns del "$3"
    ;;
esac
