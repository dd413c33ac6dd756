"""The operations of a derived loop on one number, as LLVM IR that can be vectorized.

`FUNCTIONS` has a function for each operation by element of `derived/graph.py`, under
its name. Truth is 1 or 0. The C library computes one number at a time; these have
neither branches nor calls. NaN stays NaN: no flag allows LLVM to assume that there is
none.
"""

import struct

FAST = "nsz arcp contract afn reassoc"  # only where an approximation rounds anyway
# Vectors as long as the CPU has them: LLVM would take shorter ones on Intel's, whose
# clock was slowed down by long ones, as products do. A division that FAST allows to
# round is a multiplication by an estimate that is refined once.
ATTRIBUTES = '"prefer-vector-width"="512" "reciprocal-estimates"="vec-divf"'
# Gradients below this are set to 0 before they become denormal numbers, with which a
# CPU computes several times as slowly. TensorFlow and XLA set denormals to 0 as well.
VANISHED = 1e-32


def number(x: float) -> str:
    """Returns a number as a constant of LLVM: that of float32, in hexadecimal.

    Examples:
        >>> number(0.5)
        '0x3FE0000000000000'
    """
    (rounded,) = struct.unpack("f", struct.pack("f", x))
    return "0x" + struct.pack(">d", rounded).hex().upper()


def _polynomial(name: str, x: str, coefficients: str, flags: str) -> str:
    """Lines that compute %name by Horner's rule; the highest power comes first."""
    first, *others = (number(float(c)) for c in coefficients.split())
    lines, last = [], first
    for n, c in enumerate(others, 1):
        result = f"%{name}" if n == len(others) else f"%{name}{n}"
        lines.append(f"%{name}_m{n} = fmul {flags} float {last}, {x}")
        lines.append(f"{result} = fadd {flags} float %{name}_m{n}, {c}")
        last = result
    return "\n".join(lines)


def _rational(limit: float, above: str, below: str) -> str:
    """Returns the function x P(x²) / Q(x²), which is +-1 beyond +-limit."""
    return f"""
%large = fcmp ogt float %a, {number(limit)}
%x1 = select i1 %large, float {number(limit)}, float %a
%small = fcmp olt float %x1, {number(-limit)}
%x = select i1 %small, float {number(-limit)}, float %x1
%s = fmul {FAST} float %x, %x
{_polynomial("p", "%s", above, FAST)}
{_polynomial("q", "%s", below, FAST)}
%n = fmul {FAST} float %x, %p
%r = fdiv {FAST} float %n, %q"""


# tanh and erf as in Eigen and XLA.
_TANH = _rational(
    7.90531110763549805,
    "-2.76076847742355e-16 2.00018790482477e-13 -8.60467152213735e-11 "
    "5.12229709037114e-08 1.48572235717979e-05 6.37261928875436e-04 "
    "4.89352455891786e-03",
    "1.19825839466702e-06 1.18534705686654e-04 2.26843463243900e-03 "
    "4.89352518554385e-03",
)
_ERF = _rational(
    4.0,
    "-2.72614225801306e-10 2.77068142495902e-08 -2.10102402082508e-06 "
    "-5.69250639462346e-05 -7.34990630326855e-04 -2.95459980854025e-03 "
    "-1.60960333262415e-02",
    "-1.45660718464996e-05 -2.13374055278905e-04 -1.68282697438203e-03 "
    "-7.37332916720468e-03 -1.42647390514189e-02",
)

# exp as in Cephes: 2^n exp(r). The integer n is in the last bits of x log2(e) + ROUND;
# as 2^n may overflow where the result does not, it is 2 times 2^(n - 1).
ROUND = 12582912.0  # 1.5 * 2^23
_EXP_POLYNOMIAL = (
    "1.9875691500e-4 1.3981999507e-3 8.3334519073e-3 4.1665795894e-2 1.6666665459e-1 "
    "5.0000001201e-1"
)
# 89 and -87.3 are where exp is infinite, and where it is no longer a normal number;
# 0.693… - 2.12e-4 is log(2) in two parts: n times the first has no rounding error.
_EXP = f"""
%large = fcmp ogt float %a, {number(89.0)}
%x1 = select i1 %large, float {number(89.0)}, float %a
%small = fcmp olt float %x1, {number(-87.3)}
%x = select i1 %small, float {number(-87.3)}, float %x1
%l = fmul float %x, {number(1.44269504088896341)}
%m = fadd float %l, {number(ROUND)}
%n = fsub float %m, {number(ROUND)}
%high = fmul contract float %n, {number(0.693359375)}
%x2 = fsub contract float %x, %high
%low = fmul contract float %n, {number(-2.12194440e-4)}
%x3 = fsub contract float %x2, %low
{_polynomial("e", "%x3", _EXP_POLYNOMIAL, "contract")}
%xx = fmul contract float %x3, %x3
%t = fmul contract float %e, %xx
%u = fadd contract float %t, %x3
%y = fadd contract float %u, 1.0
%bits = bitcast float %m to i32
%shifted = shl i32 %bits, 23
%exponent = add i32 %shifted, {126 << 23}
%half = bitcast i32 %exponent to float
%v = fmul float %y, %half
%w = fmul float %v, 2.0
%zero = fcmp olt float %a, {number(-87.3)}
%r = select i1 %zero, float 0.0, float %w"""

# log as in Cephes: n log(2) + log(m), with m between sqrt(1/2) and sqrt(2).
_LOG_POLYNOMIAL = (
    "7.0376836292e-2 -1.1514610310e-1 1.1676998740e-1 -1.2420140846e-1 1.4249322787e-1 "
    "-1.6668057665e-1 2.0000714765e-1 -2.4999993993e-1 3.3333331174e-1"
)
# 0x3F3504F3 are the bits of sqrt(1/2).
_LOG = f"""
%bits = bitcast float %a to i32
%above = sub i32 %bits, {0x3F3504F3}
%n = ashr i32 %above, 23
%shift = shl i32 %n, 23
%mbits = sub i32 %bits, %shift
%m = bitcast i32 %mbits to float
%e = sitofp i32 %n to float
%x = fsub float %m, 1.0
{_polynomial("p", "%x", _LOG_POLYNOMIAL, "contract")}
%xx = fmul contract float %x, %x
%xxx = fmul contract float %xx, %x
%c = fmul contract float %p, %xxx
%low = fmul contract float %e, {number(-2.12194440e-4)}
%d = fadd contract float %c, %low
%half = fmul contract float %xx, 0.5
%f = fsub contract float %d, %half
%g = fadd contract float %x, %f
%high = fmul contract float %e, {number(0.693359375)}
%y = fadd contract float %g, %high
%infinite = fcmp oeq float %a, 0x7FF0000000000000
%y1 = select i1 %infinite, float %a, float %y
%zero = fcmp oeq float %a, 0.0
%y2 = select i1 %zero, float 0xFFF0000000000000, float %y1
%real = fcmp oge float %a, 0.0
%r = select i1 %real, float %y2, float 0x7FF8000000000000"""

# LLVM's own, with the number of arguments.
_INTRINSICS = {
    **{"sqrt": ("sqrt", 1), "sin": ("sin", 1), "cos": ("cos", 1)},
    **{"absolute": ("fabs", 1), "power": ("pow", 2)},
    **{"maximum": ("maximum", 2), "minimum": ("minimum", 2)},
}
_OF_ONE = {
    "negative": "%r = fneg float %a",
    "rsqrt": """
%x = call float @llvm.sqrt.f32(float %a)
%r = fdiv float 1.0, %x""",
    "sign": """
%above = fcmp ogt float %a, 0.0
%below = fcmp olt float %a, 0.0
%x = select i1 %above, float 1.0, float %a
%r = select i1 %below, float -1.0, float %x""",
    "tanh": _TANH,
    "erf": _ERF,
    "exp": _EXP,
    "log": _LOG,
    "sigmoid": """
%h = fmul float %a, 0.5
%t = call float @tanh(float %h)
%u = fmul contract float %t, 0.5
%r = fadd contract float %u, 0.5""",
    "expm1": """
%h = fmul float %a, 0.5
%t = call float @tanh(float %h)
%e = call float @exp(float %a)
%u = fadd float %e, 1.0
%r = fmul float %t, %u""",
    # log(u) a / (u - 1), where u is 1 + a rounded: what u lost is made up for.
    "log1p": """
%u = fadd float %a, 1.0
%d = fsub float %u, 1.0
%l = call float @log(float %u)
%q = fdiv float %a, %d
%y = fmul float %l, %q
%tiny = fcmp oeq float %d, 0.0
%y1 = select i1 %tiny, float %a, float %y
%infinite = fcmp oeq float %u, 0x7FF0000000000000
%r = select i1 %infinite, float %u, float %y1""",
    "logical_not": """
%f = fcmp oeq float %a, 0.0
%r = uitofp i1 %f to float""",
    # Without denormal numbers. NaN stays NaN.
    "vanish": f"""
%size = call float @llvm.fabs.f32(float %a)
%gone = fcmp olt float %size, {number(VANISHED)}
%r = select i1 %gone, float 0.0, float %a""",
}
_COMPARISONS = {
    **{"greater": "ogt", "greater_equal": "oge", "less": "olt", "less_equal": "ole"},
    **{"equal": "oeq", "not_equal": "une"},
}
_OF_TWO = {
    "add": "%r = fadd contract float %a, %b",
    "subtract": "%r = fsub contract float %a, %b",
    "multiply": "%r = fmul contract float %a, %b",
    "divide": "%r = fdiv contract float %a, %b",
    **{
        name: f"%f = fcmp {test} float %a, %b\n%r = uitofp i1 %f to float"
        for name, test in _COMPARISONS.items()
    },
    **{
        f"logical_{word}": f"""
%f = fcmp une float %a, 0.0
%g = fcmp une float %b, 0.0
%h = {word} i1 %f, %g
%r = uitofp i1 %h to float"""
        for word in ("and", "or")
    },
    # Of the output a and its gradient b: (1 - a²) b, and a (1 - a) b.
    "tanh_gradient": """
%square = fmul contract float %a, %a
%slope = fsub contract float 1.0, %square
%r = fmul contract float %slope, %b""",
    "sigmoid_gradient": """
%rest = fsub contract float 1.0, %a
%slope = fmul contract float %a, %rest
%r = fmul contract float %slope, %b""",
}
_WHERE = """
%f = fcmp une float %a, 0.0
%r = select i1 %f, float %b, float %c"""


def _define(name: str, count: int, body: str) -> str:
    return (
        f"define internal float @{name}({_arguments(count)}) alwaysinline {ATTRIBUTES} "
        f"{{\n{body}\nret float %r\n}}"
    )


def _arguments(count: int) -> str:
    return ", ".join(f"float %{name}" for name in "abc"[:count])


# All of them; LLVM drops what is not called.
FUNCTIONS = "\n".join(
    [
        *(
            f"declare float @llvm.{name}.f32({', '.join(['float'] * count)})"
            for name, count in _INTRINSICS.values()
        ),
        *(
            _define(op, n, f"%r = call float @llvm.{name}.f32({_arguments(n)})")
            for op, (name, n) in _INTRINSICS.items()
        ),
        *(
            _define(op, n, body)
            for n, bodies in ((1, _OF_ONE), (2, _OF_TWO), (3, {"where": _WHERE}))
            for op, body in bodies.items()
        ),
    ]
)
