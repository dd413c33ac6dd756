"""Where the app keeps its files, and who reaches it."""

import ipaddress
import os
import pathlib

import streamlit as st

import kerasseq

OPTION = "KERASSEQ_APP_RUNS"  # names another folder; `kerasseq app` sets it


def root() -> pathlib.Path:
    """Returns the folder of everything that the app writes."""
    named = os.environ.get(OPTION)
    if named:
        return pathlib.Path(named).expanduser()
    return kerasseq.datasets.cache_folder() / "app"


def runs() -> pathlib.Path:
    """Returns the folder of all runs."""
    return root() / "runs"


def is_local() -> bool:
    """Whether only this computer reaches the server."""
    address = st.get_option("server.address") or ""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # none is all addresses
        return False
