"""Terms of equations, as plain text and as LaTeX at once."""

import re
import unicodedata
from collections import Counter
from typing import NamedTuple

# How strongly the parts of a term hold together.
SUM, PRODUCT, ELEMENTWISE, GRADIENT, ATOM = range(5)

_ACCENTS = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303"}
_SIGNS = str.maketrans(
    {
        **{"(": r"\left(", ")": r"\right)", "[": r"\left[", "]": r"\right]"},
        **{"⊙": r"\odot", "−": "-", "≥": r"\ge", "≤": r"\le", "≠": r"\ne"},
        **{"∧": r"\land", "∨": r"\lor", "Σ": r"\sum", "ᵀ": r"^{{\top}}", ",": r",\;"},
    }
)
_LATEX_FUNCTIONS = ("tanh", "exp", "log", "sin", "cos", "max", "min")


class Term(NamedTuple):
    """A part of an equation.

    Attributes:
        text: In Unicode.
        latex: In LaTeX.
        level: How strongly its parts hold together, `ATOM` at most.
    """

    text: str
    latex: str
    level: int = ATOM

    def at(self, level: int) -> "Term":
        """Returns the term, in parentheses if its parts hold together less."""
        return self if self.level >= level else write("({})", self)


def write(
    template: str,
    *parts: Term,
    level: int = ATOM,
    inner: int = SUM,
    latex: str | None = None,
) -> Term:
    """Returns terms with signs around and between them.

    Args:
        template: What is written, with `{}` for each term.
        *parts: The terms.
        level: How strongly the result holds together.
        inner: How strongly each part must, or it is put in parentheses.
        latex: The template in LaTeX, where it differs by more than single signs.
    """
    parts = tuple(part.at(inner) for part in parts)
    latex = template.translate(_SIGNS) if latex is None else latex
    texts, codes = (part.text for part in parts), (part.latex for part in parts)
    return Term(template.format(*texts), latex.format(*codes), level)


def letter(name: str) -> Term:
    """Writes a name of Python; "t-1" and primes may follow, and an index after "__".

    Examples:
        >>> names = ("x_f", "h_hat", "c2", "my_gate", "h_t-1", "u_h′", "z__my_gate")
        >>> [letter(name).text for name in names]
        ['x_f', 'ĥ', 'c_2', 'my_gate', 'h_{t-1}', 'u_h′', 'z_{my_gate}']
    """
    primes = name.count("′")
    plain, _, inside = name.replace("′", "").strip("_").partition("__")
    words = re.sub(r"^(\D)(\d+)", r"\1_\2", plain).split("_")
    if len(_word(words[0]).text) > 1:
        words = re.split("_(?=t$|t-1$)", plain)
    parts: list[Term] = []
    for word in words:
        if word in _ACCENTS and parts:
            text = unicodedata.normalize("NFC", parts[-1].text + _ACCENTS[word])
            parts[-1] = Term(text, rf"\{word} {parts[-1].latex}")
        else:
            parts.append(_word(word))
    (text, latex, _), *below = [*parts, *([letter(inside)] if inside else [])]
    if below:
        index = ",".join(part.text for part in below)
        single = re.fullmatch("\\w[\u0302-\u0304]?", index)
        text += f"_{index}" if single else f"_{{{index}}}"
        latex += f"_{{{', '.join(part.latex for part in below)}}}"
    return Term(text + "′" * primes, latex + "'" * primes)


def _word(name: str) -> Term:
    """Returns a word, one letter, or a Greek one; Unicode spells lambda without b."""
    try:
        small = name.replace("lambda", "lamda") if name.islower() else ""
        return Term(unicodedata.lookup(f"GREEK SMALL LETTER {small}"), rf"\{name}")
    except KeyError:
        escaped = name.replace("_", r"\_")
        short = len(name) == 1 or name == "t-1"
        return Term(name, name if short else rf"\mathrm{{{escaped}}}")


def number(x: float) -> Term:
    """Returns a number."""
    text = f"{x:g}"
    return Term(text.replace("-", "−"), text, ATOM if x >= 0 else SUM)


def function(name: str, *args: Term) -> Term:
    """Returns a call of a function."""
    escaped = name.replace("_", r"\_")
    latex = rf"\{name}" if name in _LATEX_FUNCTIONS else rf"\operatorname{{{escaped}}}"
    head = letter("sigma") if name == "sigmoid" else Term(name, latex)
    return write(f"{{}}({', '.join(['{}'] * len(args))})", head, *args)


def between(sign: str, a: Term, b: Term) -> Term:
    """Returns a sum, a difference, or a comparison."""
    return write(f"{{}} {sign} {{}}", a, b.at(PRODUCT) if sign == "−" else b, level=SUM)


def multiply(x: float, factors: list[Term]) -> Term:
    """Returns the product by element: a number in front, and powers of equal factors.

    Examples:
        >>> z = letter("z")
        >>> [multiply(x, [z, z]).text for x in (1, -0.5, 1 / 3, 0)]
        ['z²', '−0.5 z²', 'z² / 3', '0 z²']
    """
    if not factors:
        return number(x)
    if x < 0:
        return write("−{}", multiply(-x, factors).at(PRODUCT), level=SUM)
    powers = [power(f, n) if n > 1 else f for f, n in Counter(factors).items()]
    product = powers[0]
    if len(powers) > 1:
        signs = " ⊙ ".join(["{}"] * len(powers))
        product = write(signs, *powers, level=ELEMENTWISE, inner=ELEMENTWISE)
    if x == 1:
        return product
    parts = round(1 / x) if x > 1e-9 else 0
    if x not in (0.5, 0.25) and abs(x * parts - 1) < 1e-9:
        return divide(product, number(parts))
    inner = product.at(ELEMENTWISE)
    return write("{} {}", number(x), inner, level=ELEMENTWISE)


def divide(a: Term, b: Term) -> Term:
    """Returns a / b."""
    above = a if a.level == ELEMENTWISE else a.at(ATOM)
    latex = rf"\frac{{{a.latex}}}{{{b.latex}}}"
    return Term(f"{above.text} / {b.at(ATOM).text}", latex, ELEMENTWISE)


def power(a: Term, exponent: float) -> Term:
    """Returns a to the power of a number; tanh(c)² as tanh²(c)."""
    digits = f"{exponent:g}"
    raised = digits.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    raised = f"^{digits}" if "." in digits else raised
    a = a.at(ATOM)
    if a.text.startswith(("tanh(", "σ(")):
        latex = a.latex.replace(r"\left", rf"^{{{digits}}}\left", 1)
        return Term(a.text.replace("(", f"{raised}(", 1), latex)
    return Term(a.text + raised, f"{{{a.latex}}}^{{{digits}}}")


def matmul(a: Term, b: Term) -> Term:
    """Returns the product of rows with a matrix."""
    template = "{} · {}" if "∂" in a.text + b.text else "{} {}"
    return write(template, a, b, level=PRODUCT, inner=GRADIENT, latex=r"{}\, {}")


def beside(*terms: Term) -> Term:
    """Returns terms side by side, as one row."""
    return write(f"[{', '.join(['{}'] * len(terms))}]", *terms)


def part(a: Term, index: str) -> Term:
    """Returns some units or rows."""
    return write(f"{{}}[{index}]", a, inner=ATOM, latex=f"{{}}[{index}]")


def gradient(of: Term, *, later: bool = False) -> Term:
    """Returns ∂L/∂of; with `later`, the part that comes from the next step."""
    of = of.at(ATOM)
    latex = rf"\frac{{\partial L}}{{\partial {of.latex}}}"
    if later:
        return Term(f"∂L/∂{of.text}|t+1", rf"\left.{latex}\right|_{{t+1}}", GRADIENT)
    return Term(f"∂L/∂{of.text}", latex, GRADIENT)
