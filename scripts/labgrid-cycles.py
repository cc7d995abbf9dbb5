"""Cycles of places through a coordinator of labgrid, for scripts/beside-labgrid, which installs labgrid.

    labgrid-cycles.py prepare ADDRESS PLACES             makes so many places, of a resource each
    labgrid-cycles.py cycles ADDRESS PLACES SECONDS      acquires and releases so many places at a time
    labgrid-cycles.py acquire ADDRESS PLACES             acquires so many places
    labgrid-cycles.py acquired ADDRESS                   prints how many places are acquired

One client stays connected, and does for a cycle what `labgrid-client acquire` and `release` do once connected.
"""

import asyncio
import json
import sys
import time

from labgrid.remote.client import ClientSession
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages


def name(number):
    return f"place-{number}"


async def prepare(session, places):
    for number in range(int(places)):
        await session.stub.AddPlace(messages.AddPlaceRequest(name=name(number)))
        pattern = f"*/board-{number}/*"
        await session.stub.AddPlaceMatch(
            messages.AddPlaceMatchRequest(placename=name(number), pattern=pattern)
        )
    await session.sync_with_coordinator()


async def acquire_one(session, number):
    await session.stub.AcquirePlace(messages.AcquirePlaceRequest(placename=name(number)))
    await session.sync_with_coordinator()


async def acquire(session, places):
    for number in range(int(places)):
        await acquire_one(session, number)


async def one_by_one(session, number, deadline, times):
    while time.perf_counter() < deadline:
        began = time.perf_counter()
        await acquire_one(session, number)
        times.append(time.perf_counter() - began)
        await session.stub.ReleasePlace(messages.ReleasePlaceRequest(placename=name(number)))
        await session.sync_with_coordinator()


async def cycles(session, places, seconds):
    times = []
    began = time.perf_counter()
    deadline = began + float(seconds)
    await asyncio.gather(
        *(one_by_one(session, number, deadline, times) for number in range(int(places)))
    )
    rate = len(times) / (time.perf_counter() - began)
    times.sort()
    p50, p99 = (times[(len(times) - 1) * percent // 100] * 1000 for percent in (50, 99))
    print(
        json.dumps(
            {
                "at_a_time": int(places),
                "cycles": len(times),
                "cycles_per_s": round(rate, 1),
                "acquired_p50_ms": round(p50, 1),
                "acquired_p99_ms": round(p99, 1),
            }
        )
    )


async def acquired(session):
    answer = await session.stub.GetPlaces(messages.GetPlacesRequest())
    print(sum(1 for place in answer.places if place.acquired))


async def main(command, address, *arguments):
    session = ClientSession(address, asyncio.get_running_loop())
    await session.start()
    await command(session, *arguments)
    await session.stop()
    await session.close()


COMMANDS = {"prepare": prepare, "cycles": cycles, "acquire": acquire, "acquired": acquired}

if __name__ == "__main__":
    asyncio.run(main(COMMANDS[sys.argv[1]], *sys.argv[2:]))
