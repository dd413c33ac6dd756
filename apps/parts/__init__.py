r'''What the labs share. A lab is one file, `apps/labs/<lab>.py`, of at most 200 lines.

How a lab looks:

    """Lab 11, Tokens: byte-pair encoding, merge by merge."""

    from parts import figures, lab

    EQUATION = r"(a, b) = \arg\max_{(x, y)} N(x\,y)"
    CODE = """
    import kerasseq

    tokenizer = kerasseq.text.BytePairTokenizer({size}).fit({text})
    print(tokenizer.trace()[:5])
    """


    def merges(text, size):
        import kerasseq  # in the worker: here Keras may load

        return kerasseq.text.BytePairTokenizer(size).fit(text).trace()


    def body(here):
        with here.controls():
            text = here.passage("text", default="low lower lowest", most=2000)
            size = here.slider("size", 256, 512, default=300)
        found = here.compute(merges, text, size)
        rows = [{"token": m.token, "count": m.count} for m in found]
        chart = figures.bars(here.style, rows, "count", "token")
        here.picture("merges", chart, rows)
        here.code(CODE, text=text, size=size)


    if __name__ == "__main__":
        lab.show("tokens", body, equation=EQUATION)

The frame (`lab.show`) draws title and question, the equation, what `body` draws, then
"try this" with answers to discover, the code with "open as notebook", and the way to
the next lab. An exception in `body` becomes one sentence on the page.

**Texts.** Every word that a user reads is in `apps/texts/en/<lab>.toml` and
`apps/texts/fr/<lab>.toml` (`common.toml`: what several labs show). A lab needs `title`
and `question`; `look` (where to look), `try_1` and `answer_1`, … are drawn by the
frame. `here.text("key", number=3)` is any other. A control `size` has its label in
`size` and may have help in `size_help`; the option `lstm` of a choice `cell` is
`cell_lstm`, unless `labels=` is passed. `here.picture("merges", …)` has its title in
`merges` and an explanation in `merges_about`. A test finds keys that are missing,
unused, or different in the two languages. French: terms of the French slides, no
literal translation; type plain spaces before : ; ? ! % and inside « », the app makes
them nonbreaking. In a text without placeholders braces are braces, as in LaTeX.

**Controls** (`parts.controls`, all as methods of `here`): `choice`, `several`,
`slider`, `steps` (a slider over listed values), `number`, `switch`, `line` (one line of
text), `passage` (several), `upload`, `upload_text`, `button`. Their values are the
state of the lab, and go into its address: what differs from the default is a query
parameter of the same name. Never call `st.slider` and the like for state: the address
would lack it.

**Computing.** `here.compute(function, *arguments)` runs a function of the lab in the
worker, the one thread that loads Keras, and caches its result by its arguments (plain
data, arrays or paths). It imports what it needs inside, from public names of kerasseq,
and returns plain data or arrays, no tensors. Nothing is computed in the page itself.
Wrong input raises `errors.Refused("key", **values)` with a text of the lab.
`work.model(folder)` inside such a function loads a model once.

**Models.** `folder = here.prepared("dates")` is the folder of a trained model. At the
first visit it is trained with the page showing the progress; `body` ends there and runs
again when the model is done. What is trained stands in `apps/prepared/<lab>.toml`:

    [dates]
    words = ["translation", "--data", "dates", "--steps", "200"]

With `early = 100`, the page works with the model from step 100 on, while it trains.

**Runs.** `here.runs(requests)` draws the run panel: start, stop, continue, queue, live
curves. A request is a `runs.Request(words, backend, title)`; `words` follow `kerasseq
train`. It returns the runs of this browser in this lab, with their progress.

**Uploads** are gone when the page is reloaded. `uploads.keep(content, ending)` writes
bytes to a file of this browser, for runs; `own_text.draw` is upload and training of
networks. `canvas.draw(here, "drawing")` returns the strokes of a drawing, which is part
of the address.

**Streams.** `streams.draw(here, prompt, start, …)` shows a text while it is generated:
`start` returns an iterator of the worker, which is asked for a few pieces at a time.

**Numbers** for texts: `here.write(0.5, digits)`, `here.short(3.5e11, "FLOP")`,
`here.gib(bytes)`; `here.facts(("loss", "0.31"), …)` draws a few results large.

**Figures** (`parts.figures`): functions of plain rows or arrays that return an Altair
chart; the first argument is `here.style` (palette, light or dark, projector, language).
`here.picture(name, chart, rows)` draws it, with the rows as a table and as CSV: a table
has what the hover has. New kinds of figures get a file `parts/figures_<what>.py`, with
a test in `tests/apps/test_figures_<what>.py`. Small figures, of which a page has many,
are plain Vega-Lite (`parts.figures_images`); `panels.draw` draws both kinds.

**Code.** `here.code(CODE, **values)` fills `{name}` with `repr(value)`. It runs on a
computer of the reader: `file=here.trained("dates")` is a model that it trains there. A
test runs what the page shows in an empty folder, after the replacements in the lab's
`QUICK` (a dictionary of strings, such as {"steps=600": "steps=2"}).

**Tests** of a lab: `tests/apps/test_<lab>.py` with `pages.open(lab, **address)` and
each control; see `tests/apps/test_tokens.py`.
'''
