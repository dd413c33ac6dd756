"""The labs of the course, and which of them can be shown at once."""

from typing import Any

import streamlit as st

from parts import address, prepared, run_panel, work


def draw(here: Any) -> None:
    """Draws a link to each lab, and whether its models are trained."""
    manager, backend = run_panel.manager(), work.backend()
    for name, page in st.session_state["app.settled"]["pages"].items():
        needed = [n for n, recipe in prepared.recipes().items() if recipe.lab == name]
        missing = [n for n in needed if prepared.find(manager, n, backend) is None]
        with st.container(horizontal=True, vertical_alignment="center"):
            query = address.link(name)
            st.page_link(page, label=here.text(f"lab_{name}"), query_params=query)
            if missing:
                st.caption(here.text("to_train", count=len(missing)))
            else:
                st.caption(here.text("is_ready"))
