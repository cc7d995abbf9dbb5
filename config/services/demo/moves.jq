# How many units have moved by `tenure report moves`, and how many of them were swings: units that went back where they
# came from. An emulation counts those that do so within an hour, which is longer than the demonstration takes.
reduce .[] as $move ({moves: 0, swings: 0, left: {}};
    "\($move.from) \($move.to)" as $there
    | "\($move.to) \($move.from)" as $back
    | ([$move.units, .left[$back] // 0] | min) as $swings
    | .moves += $move.units
    | .swings += $swings
    | .left[$back] = (.left[$back] // 0) - $swings
    | .left[$there] = (.left[$there] // 0) + $move.units)
| "moves \(.moves), swings \(.swings)"
