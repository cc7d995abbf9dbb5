#!/usr/bin/env python3
"""A solver for `tenure plan solve --solver`: the largest part first, each on the first place with room."""

import json
import sys


def copies(entry):
    """The names of the copies of a place or a part."""
    if "count" not in entry:
        return [entry["name"]]
    return [f"{entry['name']}/{number + 1}" for number in range(entry["count"])]


def solve(problem):
    unknown = {"library", "same-host", "apart", "edge", "link"} & problem.keys()
    if unknown:
        sys.exit(f"first-fit.py knows no {', '.join(sorted(unknown))}")
    free = {name: dict(place.get("capacity", {})) for place in problem["place"] for name in copies(place)}
    installed = {name: set(place.get("installed", [])) for place in problem["place"] for name in copies(place)}
    answer = {"status": "feasible", "placement": {}, "install": {}}
    for part in sorted(problem["part"], key=lambda part: -sum(part.get("needs", {}).values())):
        needs, package = part.get("needs", {}), part.get("package")

        def has_room(place):
            room = all(free[place].get(what, 0) >= amount for what, amount in needs.items())
            return room and package not in installed[place]

        for _ in copies(part):
            place = next(filter(has_room, part.get("only", free)), None)
            if place is None:
                return {"status": "unknown"}
            for what, amount in needs.items():
                free[place][what] -= amount
            if package:
                installed[place].add(package)
                answer["install"].setdefault(place, []).append(package)
            answer["placement"].setdefault(part["name"], []).append(place)
    return answer


print(json.dumps(solve(json.loads(sys.stdin.readline()))))
