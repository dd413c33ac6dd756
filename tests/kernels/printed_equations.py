"""Computes equations that `explain` prints, from their text alone, in NumPy."""

import math
import re

import numpy as np

FUNCTIONS = {
    "σ": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sign": np.sign,
    "sin": np.sin,
    "cos": np.cos,
    "erf": np.vectorize(math.erf),
    "√": np.sqrt,
    "max": lambda x, *y: np.maximum(x, *y) if y else x.max(-1, keepdims=True),
    "sum": lambda x: x.sum(-1, keepdims=True),
    "mean": lambda x: x.mean(-1, keepdims=True),
    "where": np.where,
    "stop_gradient": lambda x: x,
    "ReLU": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "tanh_shrink": lambda x: x - np.tanh(x),
    "softplus": lambda x: np.logaddexp(x, 0),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
}
COMPARISONS = {">": np.greater, "≥": np.greater_equal, "<": np.less, "≤": np.less_equal}
COMPARISONS["="] = np.equal
LETTER = "[A-Za-z\u0370-\u03ff\u0100-\u017f]"
NAME = re.compile(
    rf"{LETTER}+(?:_{LETTER}+)*[0-9]*[\u0302-\u0304]?"
    rf"(?:_\{{[^}}]*\}}|_[0-9]|_{LETTER}[\u0302-\u0304]?)?′*"
)
INDEX = re.compile(r"\[[\d:, ]+\]")


class Equations:
    """Values by their names, to which equations add.

    Args:
        known: The values that are not computed.
        shape: Sequences, and units of a row that is broadcast.
    """

    def __init__(self, known, shape):
        self.known, self.rows = dict(known), shape[0]
        self.functions = FUNCTIONS | {"broadcast": lambda x: np.broadcast_to(x, shape)}

    def run(self, lines):
        for line in lines:
            value = self.compute(line.right)
            if line.left.startswith("["):
                names = line.left.strip("[]").split(", ")
                values = np.split(value, len(names), -1)
                self.known.update(zip(names, values, strict=True))
            else:
                self.known[line.left] = value

    def compute(self, text):
        self.text, self.at = text, 0
        if self.take("Σ_t "):
            return self.elementwise()
        value = self.sum()
        assert self.at == len(text), f"{text[: self.at]} >>> {text[self.at :]}"
        return value

    def take(self, *signs):
        for sign in signs:
            if self.text.startswith(sign, self.at):
                self.at += len(sign)
                return sign
        return None

    def sum(self):
        value = -self.elementwise() if self.take("−") else self.elementwise()
        while sign := self.take(" + ", " − "):
            other = self.elementwise()
            value = value + other if sign == " + " else value - other
        return value

    def elementwise(self):
        value = self.product()
        while sign := self.take(" ⊙ ", " / "):
            other = self.product()
            value = value * other if sign == " ⊙ " else value / other
        return value

    def product(self):
        value = self.atom()
        while self.take(" · ") or re.match(r" [\w(∂√\[]", self.text[self.at :]):
            self.take(" ")
            other = self.atom()
            value = value * other if np.ndim(value) == 0 else value @ other
        return value

    def atom(self):
        value = self.bare()
        while index := INDEX.match(self.text, self.at):
            self.at = index.end()
            units = "," not in index[0] and ":" in index[0]
            slices = f"[:, {index[0][1:]}" if units else index[0]
            value = eval(f"value{slices}", {"value": value})
        while sign := self.take("²", "³", "ᵀ"):
            value = value.T if sign == "ᵀ" else value ** "__²³".index(sign)
        return value

    def bare(self):
        if self.take("("):
            return self.until(")")
        if self.take("|"):
            return np.abs(self.until("|"))
        if self.take("["):
            parts = self.arguments("]")
            return np.concatenate(parts, -1)
        if self.take("1["):
            return self.condition("]").astype(float)
        if number := re.compile(r"(\d+)_(\d+)").match(self.text, self.at):
            self.at = number.end()
            return np.full((self.rows, int(number[2])), float(number[1]))
        if number := re.match(r"\d+(\.\d+)?(?!\[)", self.text[self.at :]):
            self.at += number.end()
            return float(number[0])
        if self.take("∂L/∂"):
            return self.gradient()
        return self.named()

    def gradient(self):
        start = self.at
        if self.take("("):
            depth = 1
            while depth:
                depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
                self.at += 1
        else:
            self.at = NAME.match(self.text, self.at).end()
        while index := INDEX.match(self.text, self.at):
            self.at = index.end()
        self.take("|t+1")
        return self.known["∂L/∂" + self.text[start : self.at]]

    def named(self):
        function = re.compile(r"([A-Za-z_σ]+|√)(²?)\(").match(self.text, self.at)
        if function:
            self.at = function.end()
            value = self.functions[function[1]](*self.arguments(")"))
            return value**2 if function[2] else value
        match = NAME.match(self.text, self.at)
        assert match, self.text[self.at :]
        self.at = match.end()
        return self.known[match[0]]

    def condition(self, end):
        value = self.sum()
        if sign := self.take(*(f" {s} " for s in COMPARISONS)):
            value = COMPARISONS[sign.strip()](value, self.sum())
        assert self.take(end) or end == ""
        return value

    def arguments(self, end):
        parts = [self.condition("")]
        while self.take(", "):
            parts.append(self.condition(""))
        assert self.take(end), self.text[self.at :]
        return parts

    def until(self, end):
        value = self.sum()
        assert self.take(end), self.text[self.at :]
        return value
