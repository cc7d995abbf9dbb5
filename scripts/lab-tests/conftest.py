"""Leads the tests of a session's board to it: labgrid learns from Tenure where the board is.

The file that `--lg-env` names is written before labgrid reads it. The board is a serial port on the network, or a place of
a coordinator that the session may use.
"""

import json
import os
from pathlib import Path

import pytest

DRIVERS = {"SerialDriver": {}, "UBootDriver": {"prompt": "=> "}}


def leased_board():
    """The session's board: its name, and its properties."""
    session = json.loads(Path(os.environ["TENURE_SESSION"]).read_text())
    return next(unit for unit in session["units"] if unit["type"] == "board")


def environment(properties):
    """What labgrid has to know of a board."""
    if "labgrid.place" in properties:
        resources = {"RemotePlace": {"name": properties["labgrid.place"]}}
        options = {"coordinator_address": properties["labgrid.coordinator"]}
    else:
        host, port = properties["serial.host"], int(properties["serial.port"])
        resources = {"NetworkSerialPort": {"host": host, "port": port, "protocol": "raw"}}
        options = {}
    return {"targets": {"main": {"resources": resources, "drivers": DRIVERS}}, "options": options}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # JSON is YAML too.
    Path(config.option.lg_env).write_text(json.dumps(environment(leased_board()["properties"])))


@pytest.fixture(scope="session")
def board():
    return leased_board()
