"""A canvas to draw on with a mouse, a pen or a finger; the drawing is in the address.

The browser sends strokes: lists of x and y in turn, from 0 to 255, y downwards. In the
address a stroke is written as hexadecimal bytes, and strokes are separated by a dot.
"""

from typing import Any

import numpy as np
import streamlit as st

SIDE = 255  # the largest coordinate
MOST = 8000  # characters of a drawing: 2,000 points
STROKES = "strokes"
_HTML = """
<div class="paper">
  <canvas width="512" height="512" role="img"></canvas>
  <button type="button"></button>
</div>
"""
_CSS = """
.paper { display: flex; flex-direction: column; gap: .5rem; align-items: flex-start; }
canvas {
  width: min(100%, 260px); aspect-ratio: 1; touch-action: none; cursor: crosshair;
  background: #ffffff; border: 2px solid var(--st-primary-color); border-radius: .5rem;
}
button {
  font: inherit; color: var(--st-text-color); padding: .3rem .9rem; cursor: pointer;
  background: var(--st-background-color); border-radius: .5rem;
  border: 1px solid var(--st-border-color);
}
button:focus-visible { outline: 3px solid var(--st-primary-color); }
"""
# A stroke may be drawn while the page still answers the one before: what comes back
# from the page replaces the drawing only if the page says that it is another one.
_SCRIPT = """
const NEAR = 3, SIDE = 255;
export default function({ data, parentElement, setStateValue }) {
  const canvas = parentElement.querySelector("canvas");
  const clear = parentElement.querySelector("button");
  canvas.setAttribute("aria-label", data.label);
  clear.textContent = data.clear;
  const own = canvas.drawing ??= { strokes: null, pen: null };
  if (own.strokes === null || (data.replace && own.pen === null))
    own.strokes = data.strokes;

  function paint() {
    const to = canvas.getContext("2d"), scale = canvas.width / (SIDE + 1);
    to.clearRect(0, 0, canvas.width, canvas.height);
    to.lineWidth = 16 * scale;
    to.lineCap = to.lineJoin = "round";
    to.strokeStyle = "#1f2430";
    for (const stroke of own.strokes) {
      to.beginPath();
      for (let n = 0; n < stroke.length; n += 2)
        to.lineTo(stroke[n] * scale, stroke[n + 1] * scale);
      if (stroke.length === 2) to.lineTo(stroke[0] * scale, stroke[1] * scale + .1);
      to.stroke();
    }
  }
  function at(event) {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width,
            (event.clientY - box.top) / box.height]
      .map(part => Math.max(0, Math.min(SIDE, Math.round(part * (SIDE + 1)))));
  }
  function send() { setStateValue("strokes", own.strokes); }

  canvas.onpointerdown = event => {
    if (own.pen !== null || event.button !== 0) return;
    event.preventDefault();
    own.pen = event.pointerId;
    canvas.setPointerCapture(event.pointerId);
    own.strokes = [...own.strokes, at(event)];
    paint();
  };
  canvas.onpointermove = event => {
    if (event.pointerId !== own.pen) return;
    const stroke = own.strokes[own.strokes.length - 1];
    for (const one of event.getCoalescedEvents?.() ?? [event]) {
      const [x, y] = at(one);
      const [u, v] = stroke.slice(-2);
      if (Math.hypot(x - u, y - v) >= NEAR) stroke.push(x, y);
    }
    paint();
  };
  canvas.onpointerup = canvas.onpointercancel = event => {
    if (event.pointerId !== own.pen) return;
    own.pen = null;
    send();
  };
  clear.onclick = () => { own.strokes = []; paint(); send(); };
  paint();
}
"""


@st.cache_resource(show_spinner=False)
def _component():
    return st.components.v2.component(
        "kerasseq.canvas", html=_HTML, css=_CSS, js=_SCRIPT
    )


def draw(here: Any, name: str, default: str = "") -> list[np.ndarray]:
    """Draws a canvas with a button that clears it, and returns the strokes.

    Args:
        here: The lab.
        name: The name in texts and address.
        default: The drawing without an address, as in an address.

    Returns:
        For each stroke its points `(points, 2)`.
    """
    key = here.address.field(name, default, lambda text: write(strokes(text)))
    component, sent = f"{key}.canvas", f"{key}.sent"

    def changed():
        found = st.session_state[component][STROKES]
        st.session_state[sent] = st.session_state[key] = write(checked(found))

    drawn = st.session_state[key]
    _component()(
        data={
            "label": here.text(name),
            "clear": here.text("clear"),
            STROKES: [stroke.ravel().tolist() for stroke in strokes(drawn)],
            "replace": st.session_state.get(sent) != drawn,
        },
        key=component,
        on_strokes_change=changed,
    )
    return strokes(drawn)


def checked(found: Any) -> list[np.ndarray]:
    """Returns the strokes that a browser has sent, without what is no stroke.

    Examples:
        >>> checked([[1, 2, 3.4, 300], [5], "x", [None, 1]])[0].tolist()
        [[1, 2], [3, 255]]
    """
    kept: list[np.ndarray] = []
    for stroke in found if isinstance(found, list) else []:
        try:
            points = np.asarray(stroke, "float64").reshape(-1, 2)
        except (ValueError, TypeError):
            continue
        if len(points) and np.isfinite(points).all():
            kept.append(np.clip(np.rint(points), 0, SIDE).astype("int64"))
    return kept


def write(found: list[np.ndarray]) -> str:
    """Writes strokes as in an address, at most `MOST` characters.

    Examples:
        >>> write([np.array([[1, 2], [3, 255]]), np.array([[16, 0]])])
        '010203ff.1000'
    """
    parts = [bytes(stroke.ravel().tolist()).hex() for stroke in found]
    while parts and len(".".join(parts)) > MOST:
        parts.pop()
    return ".".join(parts)


def strokes(text: str) -> list[np.ndarray]:
    """Reads what `write` has written.

    Raises:
        ValueError: If it is no drawing.

    Examples:
        >>> [stroke.tolist() for stroke in strokes("010203ff.1000")]
        [[[1, 2], [3, 255]], [[16, 0]]]
    """
    parts = [bytes.fromhex(part) for part in text[:MOST].split(".") if part]
    found = [np.frombuffer(part, "uint8").astype("int64") for part in parts]
    return [stroke.reshape(-1, 2) for stroke in found]
