"""The app: `kerasseq app`, or `streamlit run apps/kerasseq_app.py`."""

import pathlib

import streamlit as st

import labs
from parts import address, browser, phone, slides, style, texts, work

FOLDER = pathlib.Path(__file__).parent
ICONS = {
    "start": "play_circle",
    "race": "sprint",
    "gates": "tune",
    "gradients": "trending_down",
    "tape": "edit_note",
    "language_model": "notes",
    "votes": "how_to_vote",
    "translation": "translate",
    "chat": "forum",
    "attention": "hub",
    "positions": "format_list_numbered",
    "window": "window",
    "tokens": "content_cut",
    "bert": "select_all",
    "vision": "image",
    "count": "calculate",
    "experts": "alt_route",
    "speech": "graphic_eq",
    "pictures": "shapes",
}


def main() -> None:
    """Draws the page of the address, in the language and style of the session."""
    # Without an icon of its own, the icon of a page is fetched from another server.
    st.set_page_config(
        page_title="kerasseq", page_icon=str(FOLDER / "icon.svg"), layout="wide"
    )
    work.one_thread()
    language = address.shared("lang", texts.default_language(), texts.LANGUAGES)
    address.shared("projector", "0", ("0", "1"))
    pages = {
        lab: st.Page(
            f"labs/{lab}.py",
            title=texts.text("common", f"lab_{lab}", language),
            icon=f":material/{ICONS[lab]}:",
            url_path=None if lab == labs.COURSE[0] else lab,
            default=lab == labs.COURSE[0],
        )
        for lab in labs.COURSE
        if (FOLDER / "labs" / f"{lab}.py").exists()
    }
    page = st.navigation(list(pages.values()), position="hidden")
    _menu(pages, language)
    name = next(lab for lab, one in pages.items() if one == page)
    _settings(language)
    browser.remember()
    phone.close_menu()
    looks = style.current(language, st.session_state["app.projector"] == "1")
    style.apply(looks)
    here = address.Address(name, slides.states(name))
    st.session_state["app.settled"] = {
        "language": language,
        "style": looks,
        "address": here,
        "pages": pages,
    }
    page.run()
    here.publish()
    work.worker().load_soon()


def _menu(pages, language):
    """Draws the links to all labs; each has the state in which its lab was left."""
    with st.sidebar:
        for section, names in labs.SECTIONS.items():
            found = [lab for lab in names if lab in pages]
            if found:
                st.caption(texts.text("common", f"section_{section}", language))
            for lab in found:
                st.page_link(pages[lab], query_params=address.link(lab))


def _settings(language):
    """Draws what every page has: the language, and the size for a projector."""

    def text(key, **values):
        return texts.text("common", key, language, **values)

    with st.sidebar:
        st.segmented_control(
            text("language"),
            list(texts.LANGUAGES),
            format_func=texts.LANGUAGES.__getitem__,
            key="app.lang",
            required=True,
            wrap=True,
        )
        st.segmented_control(
            text("size"),
            ["0", "1"],
            format_func=lambda size: text(f"size_{size}"),
            key="app.projector",
            required=True,
            wrap=True,
        )
        st.caption(text("backend_here", backend=work.backend() or "—"))


main()
