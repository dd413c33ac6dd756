"""The key of a browser: runs belong to it.

A cookie survives a reload, is the same in each tab, reaches the server with the request
that opens the page, and is never part of a link. Scripts can set it; none of another
site can read it.
"""

import hashlib
import re
import secrets

import streamlit as st

COOKIE = "kerasseq_browser"
STATE = "browser.key"
_KEY = re.compile(r"[0-9a-f]{32}")
_SCRIPT = """
export default function({ data, setStateValue }) {
  const name = data.name + "=";
  const found = document.cookie.split("; ").find(part => part.startsWith(name));
  if (found) {
    const key = found.slice(name.length);
    if (key !== data.key) setStateValue("key", key);
  } else {
    document.cookie =
      name + data.key + "; path=/; max-age=31536000; SameSite=Strict";
  }
}
"""


@st.cache_resource(show_spinner=False)
def _component():
    return st.components.v2.component("kerasseq.browser", js=_SCRIPT)


def remember() -> None:
    """Makes sure that the browser has a key, and that the session knows it."""
    state = st.session_state
    if STATE not in state:
        found = st.context.cookies.get(COOKIE)
        state[STATE] = found if _is_key(found) else secrets.token_hex(16)
    found = _component()(
        data={"name": COOKIE, "key": state[STATE]},
        key="browser.cookie",
        on_key_change=lambda: None,
        height=1,
    )
    # Two tabs that open at the same time: the cookie of the first is the key of both.
    named = getattr(found, "key", None)
    if _is_key(named) and named != state[STATE]:
        state[STATE] = named
        st.rerun()


def _is_key(found):
    return isinstance(found, str) and _KEY.fullmatch(found) is not None


def owner() -> str:
    """Returns the name of the folder of this browser's runs: a hash of its key."""
    return hashlib.sha256(st.session_state[STATE].encode()).hexdigest()[:16]
