# shellcheck shell=bash
# Boards of scripts/lab that are machines of QEMU, and places of labgrid for those of lab-b. Sourced by it.

work=${work:?}
# How many boards are powered at a time: each keeps a processor busy.
powered=3
venv=$work/venv
export PYTHONDONTWRITEBYTECODE=1
declare -A sites=([lab-a]=boards-a [lab-b]=boards-b [company]=bench) board_ports=()
declare -A board_drivers=([lab-a]=qemu-board [lab-b]=labgrid-place [company]=qemu-board)
lab_b_boards=2
rivals=() # processes of labgrid

install_labgrid() {
    python_packages "$venv" labgrid pytest >"$work/installed" 2>&1 || {
        tail -n 5 "$work/installed" >&2
        fail 'labgrid and pytest cannot be installed from PyPI; scripts/lab --quick does without them'
    }
    "$venv/bin/pip" list --format json --disable-pip-version-check |
        jq -r '.[] | select(.name | test("^(labgrid|pytest)$")) | "\(.name) \(.version)"'
}

# Tells the drivers about their boards, and starts the labgrid of lab-b.
prepare_boards() {
    local owner slot
    mkdir "$work/powered" "$work/environments"
    for ((slot = 1; slot <= powered; slot++)); do
        touch "$work/powered/$slot"
    done
    for owner in "${!sites[@]}"; do
        describe_boards "$owner"
    done
    start_labgrid
}

# describe_boards OWNER: writes what the driver of its site has to know.
describe_boards() {
    local folder=$work/$1/drivers/${sites[$1]}
    (umask 077 && mkdir --parents "$folder")
    board_ports[$1]=$free_port
    free_port=$((free_port + 10))
    printf 'address=%s\nport=%s\npowered=%s\n' "$(listen_of "$1")" "${board_ports[$1]}" "$work/powered" >"$folder/board.conf"
}

# The driver of an owner's site.
settings() {
    local program
    [[ -n ${sites[$1]:-} ]] || return 0
    program=$PWD/config/drivers/${board_drivers[$1]}
    printf 'site.%s.driver={ name = "exec", setup = "%s", teardown = "%s", probe = "%s", allow = ["%s"] }\n' \
        "${sites[$1]}" "$program" "$program" "$program" "$(sha256sum "$program" | cut -d' ' -f1)"
}

# labgrid ARGUMENT...: asks the coordinator of lab-b.
labgrid() {
    (on_host lab-b timeout 60 "$venv/bin/labgrid-client" --coordinator "$coordinator" "$@")
}

# Starts a coordinator and an exporter, whose serial ports are those of boards, and makes a place of each.
start_labgrid() {
    local unit here
    here=$(listen_of lab-b)
    coordinator=$here:$free_port
    free_port=$((free_port + 1))
    printf 'coordinator=%s\nplace=board-\nclient=%s\nboard=%s\n' "$coordinator" "$venv/bin/labgrid-client" \
        "$PWD/config/drivers/qemu-board" >"$work/lab-b/drivers/boards-b/place.conf"
    mkdir "$work/labgrid"
    (cd "$work/labgrid" && on_host lab-b "$venv/bin/labgrid-coordinator" --listen "$coordinator") >>"$work/labgrid.log" 2>&1 &
    rivals+=($!)
    until_true 60 labgrid places 2>>"$work/labgrid.log" >"$work/last" || fail 'the coordinator of labgrid does not come up'
    for ((unit = 0; unit < lab_b_boards; unit++)); do
        printf 'board-%s:\n  NetworkSerialPort:\n    host: %s\n    port: %s\n    protocol: raw\n' \
            "$unit" "$here" $((board_ports[lab-b] + unit))
        labgrid --place "board-$unit" create >>"$work/labgrid.log"
        labgrid --place "board-$unit" add-match "*/board-$unit/*" >>"$work/labgrid.log"
    done >"$work/exported.yaml"
    on_host lab-b "$venv/bin/labgrid-exporter" --coordinator "$coordinator" --name bench "$work/exported.yaml" \
        >>"$work/labgrid.log" 2>&1 &
    rivals+=($!)
    until_true 60 are_exported || fail 'the exporter of labgrid does not come up'
    labgrid places
}

are_exported() {
    [[ $(labgrid resources | wc -l) == "$lab_b_boards" ]]
}

# Prints the processes of all boards that are powered.
machines() {
    pgrep --full -- "^qemu-system-arm .*$work/" || true
}

# Whether no board is powered, and no place acquired.
are_boards_free() {
    [[ -z $(machines) && -z $(labgrid places --acquired) ]]
}

# Ends what runs of labgrid, and of boards that were not given back.
remove_boards() {
    local pid
    for pid in "${rivals[@]}" $(machines); do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}
