# shellcheck shell=bash
# Real software for scripts/services and scripts/first-job, each in a folder of `work`: Slurm, Grid Engine and haproxy.
# Sourced after scripts/lib.sh; `ports` are the first two digits of those that Slurm listens at.

work=${work:?} ports=${ports:?}
daemons=() # processes of ours that do not end by themselves

# place FILE TARGET: copies a file of the demonstration, with its placeholders replaced.
place() {
    sed -e "s,FOLDER,$work,g" -e "s,HOST,$(</proc/sys/kernel/hostname),g" -e "s,PORTS,$ports,g" \
        -e "s,USER,$(id -un),g" "config/services/demo/$1" >"$2"
}

# end PID-FILE...: ends the processes that are named there.
end() {
    local file
    for file in "$@"; do
        [[ ! -s $file ]] || kill "$(<"$file")" 2>/dev/null || true
    done
}

# Makes the network of this namespace.
make_network() {
    ip link set dev lo up
    # The C library looks up no address of IPv4 unless the network has one beside those of loopback.
    ip link add name lan type bridge
    ip address add 10.98.0.1/24 dev lan
    ip link set dev lan up
}

# Slurm: its authentication, and a controller whose nodes are not there yet.
start_slurm() {
    mkdir -m 700 "$work/munge"
    mkdir "$work"/{run,spool,state,log}
    place slurm.conf "$work/slurm.conf"
    export SLURM_CONF=$work/slurm.conf
    dd if=/dev/urandom of="$work/munge/key" bs=128 count=1 status=none
    chmod 400 "$work/munge/key"
    munged --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/run/munged.pid" \
        --log-file="$work/log/munged" --seed-file="$work/munge/seed" --num-threads=2
    start_controller
}

# Starts the controller, which remembers the nodes of its pool that are there.
start_controller() {
    slurmctld -R >>"$work/log/start" 2>&1
    until_true 30 slurm_answers || fail 'slurmctld does not answer'
}

slurm_answers() {
    scontrol ping 2>/dev/null | grep -q 'is UP'
}

# Stops the controller, whose jobs go on.
stop_controller() {
    local pid
    pid=$(<"$work/run/slurmctld.pid")
    kill "$pid"
    until_true 30 is_gone "$pid" || fail 'slurmctld does not end'
}

is_gone() {
    [[ ! -d /proc/$1 ]]
}

# slurm_jobs COUNT SECONDS: an array of jobs, each for one processor.
slurm_jobs() {
    sbatch --requeue -o /dev/null -a "1-$1" --wrap "exec $work/job $2 slurm-\$SLURM_ARRAY_JOB_ID-\$SLURM_ARRAY_TASK_ID"
}

stop_slurm() {
    scancel -u "$(id -un)" 2>/dev/null || true
    end "$work"/run/slurmd.*.pid "$work/run/slurmctld.pid" "$work/run/munged.pid"
}

# Grid Engine: a qmaster in namespaces of its own, and its commands as seen from here.
start_grid() {
    local name grid=$work/grid
    mkdir -p "$grid/commands"
    cp tests/tests/system/grid_engine.sh "$grid/cluster"
    chmod +x "$grid/cluster"
    "$grid/cluster" "$grid" prepare >"$grid/log" 2>&1
    unshare --net --mount --uts --pid --fork --mount-proc --kill-child "$grid/cluster" "$grid" inside >>"$grid/log" 2>&1 &
    daemons+=($!)
    cat >"$grid/in" <<-END
		#!/bin/sh
		export SGE_ROOT=$grid/root SGE_QMASTER_PORT=16444 SGE_EXECD_PORT=16445
		pid=\$(tr -d ' ' </proc/$!/task/$!/children)
		exec nsenter -t \$pid --net --mount --uts --pid -- "\$@"
	END
    chmod +x "$grid/in"
    for name in qconf qhost qstat qmod qdel; do
        printf '#!/bin/sh\nexec %s %s "$@"\n' "$grid/in" "$name" >"$grid/commands/$name"
    done
    chmod +x "$grid"/commands/*
    until_true 30 grid_answers || fail 'sge_qmaster does not answer'
    "$grid/in" "$grid/cluster" "$grid" configure >>"$grid/log" 2>&1
}

grid_answers() {
    "$work/grid/commands/qconf" -sh >/dev/null 2>&1
}

# grid_jobs COUNT SECONDS: jobs for one slot each, of a user who may run some.
grid_jobs() {
    local job said
    for ((job = 1; job <= $1; job++)); do
        # It warns of a queue that has no host yet, and exits with 1 then.
        said=$("$work/grid/in" setpriv --reuid nobody --regid nogroup --clear-groups qsub -w n -wd / -b y \
            -o /dev/null -e /dev/null "$work/job" "$2" "grid-$job" 2>&1) ||
            [[ $said == *'has been submitted'* ]] || fail "$said"
    done
    echo "$1 jobs submitted"
}

# Has it forget jobs that have ended, but whose hosts have not said so: at times that takes them a minute.
forget_grid_jobs() {
    "$work/grid/commands/qdel" -f -u '*' >>"$work/grid/log" 2>&1 || true
}

# haproxy: a web site without any server yet.
start_web() {
    mkdir "$work/web"
    place haproxy.cfg "$work/web.cfg"
    cp config/services/demo/server.cfg "$work/server.cfg"
    haproxy -D -f "$work/web.cfg" -p "$work/web/haproxy.pid"
}

sessions=() # open connections to the web site

# open_sessions COUNT: begins sessions, which stay.
open_sessions() {
    local session count
    for ((count = 0; count < $1; count++)); do
        exec {session}<>/dev/tcp/127.0.0.1/8000
        sessions+=("$session")
    done
    echo "$1 sessions opened"
}

# Asks for a page on each session, and ends it. Sets `answered`.
close_sessions() {
    local session line
    answered=0
    for session in "${sessions[@]}"; do
        printf 'GET / HTTP/1.1\r\nHost: site\r\n\r\n' >&"$session"
        if read -r -t 10 -u "$session" line && [[ $line == *' 200 '* ]]; then
            answered=$((answered + 1))
        fi
        exec {session}>&-
    done
    echo "$answered of ${#sessions[@]} sessions still answered"
    sessions=()
}

stop_web() {
    end "$work"/web/*.pid
}
