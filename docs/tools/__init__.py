"""Makes pages, figures and notebooks of the tutorials, in two languages.

    python -m docs.tools refresh 04 --backend torch   executes, and renders
    python -m docs.tools numbers 04                   the number on each backend
    python -m docs.tools render                       without executing
    python -m docs.tools check                        what the tests and CI demand

A tutorial is `tutorials/NN_name.py` (code, English prose) and `tutorials/fr/NN_name.md`
(French prose for cells of the same names). What the execution printed and drew is in
`tutorials/results/NN_name/`, and rendering needs nothing else.
"""
