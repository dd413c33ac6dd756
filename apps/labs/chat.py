"""Lab 8, Chat: a model that has read, and the same model after conversations."""

import time

import streamlit as st

from labs.code import chat as code
from parts import chats, lab, strips, work
from parts.controls import SEPARATOR

QUICK = code.QUICK  # in tests the code trains few steps
EQUATIONS = {
    "read": (r"L = -\frac{1}{T} \sum_t \ln p(x_{t+1} \mid x_1 \dots x_t)",),
    "talk": (r"L = -\frac{\sum_t w_t \ln p(x_{t+1} \mid x_1 \dots x_t)}{\sum_t w_t}",),
}
TRIES = ({}, *({"stage": "talk"},) * 3)
TEMPERATURES = (0.0, 0.5, 1.0, 1.5, 2.0)
LONGEST, MESSAGES = 100, 10  # characters of a message, and messages
PAUSE = 0.06  # seconds between two tokens
NEW = "chat.is_new"  # in the session: whether the last answer is to be streamed
SPECIAL = ("<|", "<unk>")  # how tokens that are no words begin


def read(text):
    """Reads messages from an address."""
    parts = [" ".join(part.split())[:LONGEST] for part in text.split(SEPARATOR)]
    return [part for part in parts if part][:MESSAGES]


def ask(key, text):
    """Adds a message; a callback."""
    new = read(text.replace("’", "'").replace(SEPARATOR, " "))
    if new and len(st.session_state[key]) < MESSAGES:
        st.session_state[key] = [*st.session_state[key], *new]
        st.session_state[NEW] = True


def ask_typed(key, box):
    """Adds the message that was typed; a callback."""
    ask(key, st.session_state[box] or "")


def questions(here, key):
    """Draws the box for a message, and questions that no conversation has asked."""
    is_full = len(st.session_state[key]) >= MESSAGES
    box = f"{here.name}.box.{here.language}"
    with st.container():  # elsewhere it would stand at the end of the page
        st.chat_input(
            here.text("full" if is_full else "box"),
            key=box,
            max_chars=LONGEST,
            disabled=is_full,
            on_submit=ask_typed,
            args=(key, box),
        )
    st.caption(here.text("examples"))
    with st.container(horizontal=True):
        for n, text in enumerate(here.compute(chats.examples, here.language)):
            name = f"{here.name}.example.{here.language}.{n}"
            st.button(text, key=name, on_click=ask, args=(key, text), disabled=is_full)
        if here.button("new", disabled=not st.session_state[key]):
            st.session_state[key] = []
            st.rerun()


def others(here, piece):
    """Returns the next three tokens with their probabilities."""
    found = [pair for pair in piece["best"] if pair[0] != piece["token"]][:3]
    return [f"{token} {here.write(p, 3)}" for token, p in found]


def colors(here, pieces):
    """Returns what `boxes` needs: less probable tokens have more color."""
    titles = [
        f"P = {here.write(piece['probability'], 3)} · {', '.join(others(here, piece))}"
        for piece in pieces
    ]
    values = [1 - piece["probability"] for piece in pieces]
    return {"values": values, "limits": (0, 1), "titles": titles}


def drawn(here, pieces):
    """Returns HTML with an answer, and its tokens below."""
    text = "".join(piece["text"] for piece in pieces)
    boxes = [piece["token"] for piece in pieces]
    found = strips.boxes(here.style, boxes, **colors(here, pieces))
    return strips.plain(text or "∅") + found


def stream(here, place, *arguments):
    """Draws an answer token by token."""
    pieces, found = work.worker().run(chats.stream, *arguments), []
    while (piece := work.worker().run(next, pieces, None)) is not None:
        found.append(piece)
        place.html(drawn(here, found))
        time.sleep(PAUSE)


def conversation(here, settings, key):
    """Draws all messages with their answers; returns the last answer, or None."""
    said, answer, messages = st.session_state[key], None, []
    is_new = st.session_state.pop(NEW, False)
    for n, text in enumerate(said, 1):
        st.chat_message("user").text(text)
        with st.chat_message("assistant"):
            place = st.empty()
            try:
                if is_new and n == len(said):
                    stream(here, place, settings, messages, text)
                answer = here.compute(chats.answer, settings, messages, text)
            except ValueError:  # too long, or nothing that the model reads
                st.session_state[key] = said[: n - 1]
                raise
            place.html(drawn(here, answer["pieces"]))
        messages = answer["messages"]
    return answer


def last_answer(here, answer):
    """Draws what the model read, and the tokens of its answer with the next three."""
    if answer["left_out"]:
        here.say("left_out", count=answer["left_out"])
    marked = [n for n, t in enumerate(answer["read"]) if t.startswith(SPECIAL)]
    here.strip("fed", answer["read"], marked=marked)
    pieces, rows = answer["pieces"], []
    for piece in pieces:
        row = {"token": piece["token"], "probability": piece["probability"]}
        for n, other in enumerate(others(here, piece), 2):
            row[f"best_{n}"] = other
        rows.append(row)
    titles = {name: here.text(f"title_{name}") for name in rows[0]}
    boxes = [piece["token"] for piece in pieces]
    here.strip("tokens", boxes, rows, titles, **colors(here, pieces))


def body(here):
    """Draws the page."""
    with here.controls():
        temperature = here.steps("temperature", TEMPERATURES, 0.0)
        seed = here.number("seed", 0, 9999, 0)
    shares = here.compute(chats.scores, here.language, here.view)
    shown = {n: here.write(100 * share, 0) for n, share in shares.items()}
    names = ("known", "others")
    here.facts(*((n, here.text("percent", value=shown[n])) for n in names))
    default = read(here.text("said_default"))
    name = f"said_{here.language}"
    key = here.address.field(name, default, read, SEPARATOR.join)
    place = st.container()
    questions(here, key)
    settings = here.language, here.view, temperature, seed
    here.code(
        code.source(here.view),
        language=here.language,
        most=chats.MOST,
        temperature=temperature,
        seed=seed,
        said=st.session_state[key],
    )
    with place:
        answer = conversation(here, settings, key)
    if answer is not None:
        last_answer(here, answer)


if __name__ == "__main__":
    lab.show(
        "chat",
        body,
        equations=EQUATIONS,
        views=chats.STAGES,
        control="stage",
        tries=TRIES,
    )
