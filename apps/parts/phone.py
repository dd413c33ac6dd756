"""On a phone the menu covers the page: it closes after a choice."""

import streamlit as st

WIDEST = 768  # pixels; Streamlit lays the menu beside the page above
_SCRIPT = """
export default function({ data }) {
  if (window.kerasseqMenu) return;
  window.kerasseqMenu = true;
  document.addEventListener("click", event => {
    const chosen = event.target.closest(
      "[data-testid=stSidebar] [data-testid=stPageLink] a"
    );
    if (chosen && window.innerWidth <= data.widest)
      document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
  });
}
"""


@st.cache_resource(show_spinner=False)
def _component():
    return st.components.v2.component("kerasseq.phone", js=_SCRIPT)


def close_menu() -> None:
    """Closes the menu after each choice of a page, on a narrow screen."""
    _component()(data={"widest": WIDEST}, key="phone.menu", height=1)
