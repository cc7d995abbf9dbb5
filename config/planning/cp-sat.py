#!/usr/bin/env python3
"""A solver for `tenure plan solve --solver`: CP-SAT of OR-Tools (`pip install ortools`).

It knows all of a problem but libraries, edges and links.
"""

import json
import sys

try:
    from ortools.sat.python import cp_model
except ImportError:
    sys.exit("cp-sat.py needs OR-Tools: `pip install ortools`")

MILLION = 1_000_000


def copies(entry):
    """The names of the copies of a place or a part."""
    if "count" not in entry:
        return [entry["name"]]
    return [f"{entry['name']}/{number + 1}" for number in range(entry["count"])]


def same(package):
    """A package by what makes it equal to others: 1.0 is 1."""
    names = package.split("/")
    for index in (2, 4):
        numbers = [int(number) for number in names[index].split(".")]
        while numbers and numbers[-1] == 0:
            numbers.pop()
        names[index] = tuple(numbers)
    return tuple(names)


class Model:
    """Which item is on which place: `on[item][place]`."""

    def __init__(self, problem):
        unknown = {"library", "edge", "link"} & problem.keys()
        if unknown or any(part.get("depends") for part in problem["part"]):
            sys.exit(f"cp-sat.py knows no {', '.join(sorted(unknown or {'depends'}))}")
        self.problem = problem
        self.places = {name: place for place in problem["place"] for name in copies(place)}
        self.items = {name: part for part in problem["part"] for name in copies(part)}
        self.of = {part["name"]: copies(part) for part in problem["part"]} | {item: [item] for item in self.items}
        self.model = cp_model.CpModel()
        self.on = {item: {p: self.model.new_bool_var("") for p in self.allowed(part)} for item, part in self.items.items()}
        self.used = {place: self.model.new_bool_var("") for place in self.places}
        for row in self.on.values():
            self.model.add_exactly_one(row.values())
        for place in self.places:
            self.fill(place)
        self.relate()

    def allowed(self, part):
        """The places that a part may go to: none with an instance that it does not reuse."""
        places = part.get("only", self.places)
        return [p for p in places if self.reuses(part, p) or not self.has(part, p)]

    def has(self, part, place):
        installed = map(same, self.places[place].get("installed", []))
        return "package" in part and same(part["package"]) in installed

    def reuses(self, part, place):
        return part.get("reuse", False) and self.has(part, place)

    def fill(self, place):
        """Room, one instance of each package, and whether anything is there."""
        here = [(part, self.on[item][place]) for item, part in self.items.items() if place in self.on[item]]
        new = [(part, var) for part, var in here if not self.reuses(part, place)]
        capacity = self.places[place].get("capacity", {})
        for what in {what for part, _ in new for what in part.get("needs", {})}:
            taken = sum(part.get("needs", {}).get(what, 0) * var for part, var in new)
            self.model.add(taken <= capacity.get(what, 0))
        packages = {}
        for part, var in new:
            if "package" in part:
                packages.setdefault(same(part["package"]), []).append(var)
        for instances in packages.values():
            self.model.add_at_most_one(instances)
        self.model.add_max_equality(self.used[place], [var for _, var in here] or [0])

    def members(self, names):
        return [item for name in names for item in self.of[name]]

    def at(self, item, place):
        return self.on[item].get(place, 0)

    def relate(self):
        for first, *others in map(self.members, filter(None, self.problem.get("same-host", []))):
            for other in others:
                for place in self.places:
                    self.model.add(self.at(first, place) == self.at(other, place))
        for items in map(self.members, self.problem.get("apart", [])):
            for place in self.places:
                self.model.add(sum(self.at(item, place) for item in items) <= 1)

    def pairs(self):
        for uses in self.problem.get("uses", []):
            for one in self.of[uses["from"]]:
                for other in self.of[uses["to"]]:
                    yield one, other, uses.get("weight", 1)

    def together(self, one, other):
        """How many places have both: 1 or 0."""
        both = []
        for place in self.on[one].keys() & self.on[other].keys():
            var = self.model.new_bool_var("")
            self.model.add_min_equality(var, [self.on[one][place], self.on[other][place]])
            both.append(var)
        return sum(both)

    def term(self, name):
        every = [(part, place, var) for item, part in self.items.items() for place, var in self.on[item].items()]
        if name == "installs":
            return sum(var for part, place, var in every if not self.reuses(part, place))
        if name == "nodes":
            return sum(self.used.values())
        if name == "spread":
            bound = {item for one, other, _ in self.pairs() for item in (one, other)}
            hosts = {place: self.model.new_bool_var("") for place in self.places}
            for place, var in hosts.items():
                self.model.add_max_equality(var, [self.at(item, place) for item in bound] or [0])
            return sum(hosts.values())
        if name == "uses":
            return sum(w * (1 - self.together(one, other)) for one, other, w in self.pairs() if one != other)
        if name == "favourites":
            return sum(var for part, place, var in every if part.get("favourites") and not self.favours(part, place))
        return sum(self.price(part, place) * var for part, place, var in every)

    def favours(self, part, place):
        return place in part["favourites"] or place.rsplit("/", 1)[0] in part["favourites"]

    def price(self, part, place):
        """In millionths."""
        price = self.places[place].get("price", 0)
        each = (lambda what: price.get(what, 0)) if isinstance(price, dict) else (lambda what: price)
        return sum(round(each(what) * MILLION) * amount for what, amount in part.get("needs", {}).items())

    def solve(self):
        """Makes one term after the other least."""
        status, solver = None, cp_model.CpSolver()
        solver.parameters.num_workers = 1
        for name in self.problem["objective"]:
            term = self.term(name)
            self.model.minimize(term)
            status = solver.solve(self.model)
            if status != cp_model.OPTIMAL:
                break
            self.model.add(term == round(solver.objective_value))
        if status == cp_model.INFEASIBLE:
            return {"status": "infeasible"}
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return {"status": "unknown"}
        return self.answer(solver, "optimal" if status == cp_model.OPTIMAL else "feasible")

    def answer(self, solver, status):
        answer = {"status": status, "placement": {}, "reused": [], "install": {}}
        for part in self.problem["part"]:
            for item in copies(part):
                place = next(p for p, var in self.on[item].items() if solver.value(var))
                answer["placement"].setdefault(part["name"], []).append(place)
                if self.reuses(part, place):
                    answer["reused"].append(item)
                elif "package" in part:
                    answer["install"].setdefault(place, []).append(part["package"])
        return answer


print(json.dumps(Model(json.loads(sys.stdin.readline())).solve()))
