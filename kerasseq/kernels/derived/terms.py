"""Terms of equations, as plain text and as LaTeX at once."""

import functools
import re
import unicodedata
from collections import Counter
from typing import NamedTuple

# How strongly the parts of a term hold together.
SUM, ELEMENTWISE, PRODUCT, ATOM = range(4)

_GREEK = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε"},
    **{"zeta": "ζ", "eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ"},
    **{"nu": "ν", "xi": "ξ", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ"},
    **{"chi": "χ", "psi": "ψ", "omega": "ω"},
}
_ACCENTS = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303"}


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
        if self.level >= level:
            return self
        return Term(f"({self.text})", rf"\left({self.latex}\right)")


class Letter(NamedTuple):
    """The name of a value.

    Attributes:
        base: A letter or a word.
        below: Its indices.
        accent: "hat", "bar", "tilde" or "".
        primes: How many primes it has.
    """

    base: str
    below: "tuple[str | Letter, ...]" = ()
    accent: str = ""
    primes: int = 0

    def indexed(self, *below: "str | Letter") -> "Letter":
        """Returns the letter with further indices."""
        return self._replace(below=(*self.below, *below))

    @property
    def term(self) -> Term:
        """What is written."""
        base = _GREEK.get(self.base, self.base)
        text = unicodedata.normalize("NFC", base + _ACCENTS.get(self.accent, ""))
        indices = [i if isinstance(i, str) else i.term.text for i in self.below]
        below = ",".join(indices)
        if below:
            text += (
                f"_{below}"
                if re.fullmatch("\\w[\u0302-\u0304]?", below)
                else f"_{{{below}}}"
            )
        text += "′" * self.primes
        latex = _latex_name(self.base)
        if self.accent:
            latex = rf"\{self.accent} {latex}"
        if self.below:
            latex += f"_{{{', '.join(map(_latex_index, self.below))}}}"
        return Term(text, latex + "'" * self.primes)


def letter(name: str) -> Letter:
    """Reads a name of Python: `x_f` and `x2` have an index, `h_hat` an accent.

    Examples:
        >>> [letter(name).term.text for name in ("x_f", "h_hat", "c2", "my_gate")]
        ['x_f', 'ĥ', 'c_2', 'my_gate']
    """
    base, *rest = [part for part in name.split("_") if part] or [name]
    if len(base) > 1 and base not in _GREEK and not re.search(r"\d", base):
        return Letter(name)  # a word
    numbered = re.fullmatch(r"([a-zA-Z]+)(\d+)", base)
    if numbered:
        base, number = numbered.groups()
        rest = [number, *rest]
    accents = [part for part in rest if part in _ACCENTS]
    below = [part for part in rest if part not in _ACCENTS]
    return Letter(base, tuple(below), accents[0] if accents else "")


def _latex_name(name: str) -> str:
    if name in _GREEK:
        return rf"\{name}"
    if len(name) == 1:
        return name
    return rf"\mathrm{{{name.replace('_', chr(92) + '_')}}}"


def _latex_index(index: str | Letter) -> str:
    if isinstance(index, Letter):
        return index.term.latex
    return index if index == "t-1" else _latex_name(index)


def number(x: float) -> Term:
    """Returns a number.

    Examples:
        >>> number(0.5).text, number(2.0).text
        ('0.5', '2')
    """
    text = f"{x:g}"
    return Term(text.replace("-", "−"), text, ATOM if x >= 0 else SUM)


def repeated(x: float, width: int) -> Term:
    """Returns a number that stands at each of some units: 0_3."""
    return Term(f"{number(x).text}_{width}", f"{number(x).latex}_{{{width}}}")


def function(name: str, *args: Term) -> Term:
    """Returns a call of a function."""
    latex = {"σ": r"\sigma", "tanh": r"\tanh", "exp": r"\exp", "log": r"\log"}
    shown = latex.get(name) or rf"\operatorname{{{name.replace('_', chr(92) + '_')}}}"
    inside = ", ".join(a.latex for a in args)
    return Term(
        f"{name}({', '.join(a.text for a in args)})",
        rf"{shown}\left({inside}\right)",
    )


def join(text: str, latex: str, level: int, *terms: Term) -> Term:
    """Returns terms with a sign between them."""
    terms = tuple(t.at(level) for t in terms)
    return Term(
        text.join(t.text for t in terms), latex.join(t.latex for t in terms), level
    )


def add(a: Term, b: Term) -> Term:
    """Returns a + b."""
    return join(" + ", " + ", SUM, a, b)


def subtract(a: Term, b: Term) -> Term:
    """Returns a − b."""
    return join(" − ", " - ", SUM, a, b.at(ELEMENTWISE))


def negative(a: Term) -> Term:
    """Returns −a."""
    a = a.at(ELEMENTWISE)
    return Term(f"−{a.text}", f"-{a.latex}", SUM)


def multiply(*factors: Term) -> Term:
    """Returns the product by element, with powers of equal factors."""
    factors = tuple(power(f, n) if n > 1 else f for f, n in Counter(factors).items())
    if len(factors) == 1:
        return factors[0]
    factors = tuple(f if f.level == ELEMENTWISE else f.at(ATOM) for f in factors)
    return join(" ⊙ ", r" \odot ", ELEMENTWISE, *factors)


def scale(x: float, a: Term) -> Term:
    """Returns a number times a; a third of it as a / 3."""
    if x not in (0.5, 0.25) and abs(1 / x - round(1 / x)) < 1e-9 and abs(x) < 1:
        return divide(a, number(round(1 / x)))
    a = a if a.level == ELEMENTWISE else a.at(ATOM)
    sign = number(x).at(ATOM)
    return Term(f"{sign.text} {a.text}", rf"{sign.latex}\,{a.latex}", ELEMENTWISE)


def power(a: Term, exponent: float) -> Term:
    """Returns a to the power of a number; tanh(c)² as tanh²(c)."""
    digits = f"{exponent:g}"
    raised = digits.translate(str.maketrans("-.0123456789", "⁻·⁰¹²³⁴⁵⁶⁷⁸⁹"))
    if "." in digits:
        a = a.at(ATOM)
        return Term(f"{a.text}^{digits}", f"{{{a.latex}}}^{{{digits}}}")
    called = re.fullmatch(r"(tanh|σ)(\(.*\))", a.text)
    if called and a.level == ATOM:
        sign, inside = re.fullmatch(r"(\\tanh|\\sigma)(\\left.*)", a.latex).groups()
        return Term(f"{called[1]}{raised}{called[2]}", f"{sign}^{{{digits}}}{inside}")
    a = a.at(ATOM)
    return Term(a.text + raised, f"{{{a.latex}}}^{{{digits}}}")


def root(a: Term) -> Term:
    """Returns the square root."""
    return Term(f"√({a.text})", rf"\sqrt{{{a.latex}}}")


def absolute(a: Term) -> Term:
    """Returns |a|."""
    return Term(f"|{a.text}|", rf"\left|{a.latex}\right|")


def divide(a: Term, b: Term) -> Term:
    """Returns a / b."""
    above = a if a.level == ELEMENTWISE else a.at(ATOM)
    gradient = above.level == ATOM and above.text.startswith("∂")
    above_text = f"({above.text})" if gradient else above.text
    text = f"{above_text} / {b.at(ATOM).text}"
    return Term(text, rf"\frac{{{a.latex}}}{{{b.latex}}}", ELEMENTWISE)


def product(a: Term, b: Term) -> Term:
    """Returns the product of rows with a matrix."""
    a, b = a.at(ATOM), b.at(ATOM)
    dot = " · " if "∂" in a.text + b.text else " "
    return Term(a.text + dot + b.text, rf"{a.latex}\, {b.latex}", PRODUCT)


def transposed(a: Term) -> Term:
    """Returns the transpose."""
    a = a.at(ATOM)
    return Term(f"{a.text}ᵀ", rf"{a.latex}^{{\top}}")


def beside(terms: list[Term]) -> Term:
    """Returns terms side by side, as one row."""
    text = ", ".join(t.text for t in terms)
    latex = r",\; ".join(t.latex for t in terms)
    return Term(f"[{text}]", rf"\left[{latex}\right]")


def part(a: Term, index: str) -> Term:
    """Returns some units or rows."""
    of_gradient = a.text.startswith("∂")  # else the index would be that of the letter
    a = a._replace(level=SUM if of_gradient else a.level).at(ATOM)
    return Term(f"{a.text}[{index}]", rf"{a.latex}[{index}]")


def indicator(condition: Term) -> Term:
    """Returns 1 where a condition is true, else 0."""
    return Term(f"1[{condition.text}]", rf"\mathbb{{1}}\left[{condition.latex}\right]")


def gradient(of: Term, *, later: bool = False) -> Term:
    """Returns ∂L/∂of; with `later`, the part that comes from the next step."""
    of = of.at(ATOM)
    latex = rf"\frac{{\partial L}}{{\partial {of.latex}}}"
    if later:
        return Term(f"∂L/∂{of.text}|t+1", rf"\left.{latex}\right|_{{t+1}}")
    return Term(f"∂L/∂{of.text}", latex)


def over_steps(terms: list[Term]) -> Term:
    """Returns the sum over the steps of a sum."""
    a = functools.reduce(add, terms).at(ELEMENTWISE)
    return Term(f"Σ_t {a.text}", rf"\sum_t {a.latex}", PRODUCT)
