"""What a job of scripts/lab does with its board: U-Boot is there, and nobody else is.

LAB_JOB is the number of the job. In the folder LAB_WORK it leaves a file `running/JOB` while it has the board, `done/JOB`
with the board's name once it has passed, and a line in `say/double` if it meets another job at its board.
"""

import os
import time
from pathlib import Path

import pytest

JOB = os.environ["LAB_JOB"]
WORK = Path(os.environ["LAB_WORK"])
# How long a job keeps looking whether another one is at its board.
AT_WORK_S = 2


def double(board, other):
    with (WORK / "say" / "double").open("a") as file:
        file.write(f"{board['unit']}: job {JOB} meets {other}\n")
    pytest.fail(f"{other} is at {board['unit']} too")


@pytest.fixture
def alone(board):
    """The board's folder has room for one job."""
    busy = Path(board["properties"]["unit.directory"]) / "busy"
    try:
        busy.mkdir()
    except FileExistsError:
        double(board, "a job without a number")
    (WORK / "running" / JOB).touch()
    yield board
    busy.rmdir()


@pytest.fixture
def uboot(alone, target):
    # U-Boot may have said what it says at its start, so it is asked for a prompt.
    target.get_driver("ConsoleProtocol").sendline("")
    return target.get_driver("CommandProtocol")


def job_at_board(uboot):
    """Which job has left its number at the board, if any."""
    said, _, failed = uboot.run("printenv job")
    return None if failed else said[0].removeprefix("job=")


def test_board(alone, uboot):
    assert any(line.startswith("U-Boot ") for line in uboot.run_check("version"))
    # A board that was switched on for this lease knows of no job.
    before = job_at_board(uboot)
    if before is not None:
        double(alone, f"job {before}")
    uboot.run_check(f"setenv job {JOB}")
    deadline = time.monotonic() + AT_WORK_S
    while time.monotonic() < deadline:
        now = job_at_board(uboot)
        if now != JOB:
            double(alone, f"job {now}")
    (WORK / "done" / JOB).write_text(alone["unit"] + "\n")
