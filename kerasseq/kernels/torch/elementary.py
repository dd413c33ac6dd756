"""The elementary functions of a derived loop, as LLVM IR that can be vectorized.

The C library computes one number at a time; these have neither branches nor calls.
NaN stays NaN: no flag allows LLVM to assume that there is none.
"""

import struct
from collections.abc import Sequence

FAST = "nsz arcp contract afn reassoc"  # only where an approximation rounds anyway
# Vectors as long as the CPU has them: LLVM would take shorter ones on Intel's, whose
# clock was slowed down by long ones, as products do. A division that FAST allows to
# round is a multiplication by an estimate that is refined once.
ATTRIBUTES = '"prefer-vector-width"="512" "reciprocal-estimates"="vec-divf"'


def number(x: float) -> str:
    """Returns a number as a constant of LLVM: that of float32, in hexadecimal.

    Examples:
        >>> number(0.5)
        '0x3FE0000000000000'
    """
    (rounded,) = struct.unpack("f", struct.pack("f", x))
    return "0x" + struct.pack(">d", rounded).hex().upper()


def _polynomial(name: str, x: str, coefficients: Sequence[float], flags: str) -> str:
    """Lines that compute %name by Horner's rule; the highest power comes first."""
    lines, last = [], number(coefficients[0])
    for n, c in enumerate(coefficients[1:], 1):
        result = f"%{name}" if n == len(coefficients) - 1 else f"%{name}{n}"
        lines.append(f"  %{name}_m{n} = fmul {flags} float {last}, {x}")
        lines.append(f"  {result} = fadd {flags} float %{name}_m{n}, {number(c)}")
        last = result
    return "\n".join(lines)


def _rational(
    name: str, limit: float, above: Sequence[float], below: Sequence[float]
) -> str:
    """A function x P(x²) / Q(x²), which is +-1 beyond +-limit."""
    return f"""
define internal float @{name}(float %x0) alwaysinline {ATTRIBUTES} {{
  %large = fcmp ogt float %x0, {number(limit)}
  %x1 = select i1 %large, float {number(limit)}, float %x0
  %small = fcmp olt float %x1, {number(-limit)}
  %x = select i1 %small, float {number(-limit)}, float %x1
  %s = fmul {FAST} float %x, %x
{_polynomial("p", "%s", above, FAST)}
{_polynomial("q", "%s", below, FAST)}
  %n = fmul {FAST} float %x, %p
  %r = fdiv {FAST} float %n, %q
  ret float %r
}}"""


# tanh and erf as in Eigen and XLA.
_TANH = _rational(
    "tanh",
    7.90531110763549805,
    (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    ),
    (
        1.19825839466702e-06,
        1.18534705686654e-04,
        2.26843463243900e-03,
        4.89352518554385e-03,
    ),
)
_ERF = _rational(
    "erf",
    4.0,
    (
        -2.72614225801306e-10,
        2.77068142495902e-08,
        -2.10102402082508e-06,
        -5.69250639462346e-05,
        -7.34990630326855e-04,
        -2.95459980854025e-03,
        -1.60960333262415e-02,
    ),
    (
        -1.45660718464996e-05,
        -2.13374055278905e-04,
        -1.68282697438203e-03,
        -7.37332916720468e-03,
        -1.42647390514189e-02,
    ),
)

# exp as in Cephes: 2^n exp(r). The integer n is in the last bits of x log2(e) + ROUND;
# as 2^n may overflow where the result does not, it is 2 times 2^(n - 1).
ROUND = 12582912.0  # 1.5 * 2^23
_EXP = f"""
define internal float @exp(float %x0) alwaysinline {ATTRIBUTES} {{
  %large = fcmp ogt float %x0, {number(89.0)}
  %x1 = select i1 %large, float {number(89.0)}, float %x0
  %small = fcmp olt float %x1, {number(-87.3)}
  %x = select i1 %small, float {number(-87.3)}, float %x1
  %l = fmul float %x, {number(1.44269504088896341)}
  %m = fadd float %l, {number(ROUND)}
  %n = fsub float %m, {number(ROUND)}
  %high = fmul contract float %n, {number(0.693359375)}
  %r1 = fsub contract float %x, %high
  %low = fmul contract float %n, {number(-2.12194440e-4)}
  %r = fsub contract float %r1, %low
{
    _polynomial(
        "e",
        "%r",
        (
            1.9875691500e-4,
            1.3981999507e-3,
            8.3334519073e-3,
            4.1665795894e-2,
            1.6666665459e-1,
            5.0000001201e-1,
        ),
        "contract",
    )
}
  %rr = fmul contract float %r, %r
  %t = fmul contract float %e, %rr
  %u = fadd contract float %t, %r
  %y = fadd contract float %u, 1.0
  %bits = bitcast float %m to i32
  %shifted = shl i32 %bits, 23
  %exponent = add i32 %shifted, {126 << 23}
  %half = bitcast i32 %exponent to float
  %v = fmul float %y, %half
  %w = fmul float %v, 2.0
  %zero = fcmp olt float %x0, {number(-87.3)}
  %z = select i1 %zero, float 0.0, float %w
  ret float %z
}}"""

# log as in Cephes: n log(2) + log(m), with m between sqrt(1/2) and sqrt(2).
_LOG = f"""
define internal float @log(float %x) alwaysinline {ATTRIBUTES} {{
  %bits = bitcast float %x to i32
  %above = sub i32 %bits, {0x3F3504F3}
  %n = ashr i32 %above, 23
  %shift = shl i32 %n, 23
  %mbits = sub i32 %bits, %shift
  %m = bitcast i32 %mbits to float
  %e = sitofp i32 %n to float
  %r = fsub float %m, 1.0
{
    _polynomial(
        "p",
        "%r",
        (
            7.0376836292e-2,
            -1.1514610310e-1,
            1.1676998740e-1,
            -1.2420140846e-1,
            1.4249322787e-1,
            -1.6668057665e-1,
            2.0000714765e-1,
            -2.4999993993e-1,
            3.3333331174e-1,
        ),
        "contract",
    )
}
  %rr = fmul contract float %r, %r
  %rrr = fmul contract float %rr, %r
  %a = fmul contract float %p, %rrr
  %low = fmul contract float %e, {number(-2.12194440e-4)}
  %b = fadd contract float %a, %low
  %half = fmul contract float %rr, 0.5
  %c = fsub contract float %b, %half
  %d = fadd contract float %r, %c
  %high = fmul contract float %e, {number(0.693359375)}
  %y = fadd contract float %d, %high
  %infinite = fcmp oeq float %x, 0x7FF0000000000000
  %y1 = select i1 %infinite, float %x, float %y
  %zero = fcmp oeq float %x, 0.0
  %y2 = select i1 %zero, float 0xFFF0000000000000, float %y1
  %real = fcmp oge float %x, 0.0
  %z = select i1 %real, float %y2, float 0x7FF8000000000000
  ret float %z
}}"""

# log(1 + x) = log(u) x / (u - 1), where u is 1 + x rounded: what u lost is made up for.
_OTHERS = f"""
define internal float @sigmoid(float %x) alwaysinline {ATTRIBUTES} {{
  %h = fmul float %x, 0.5
  %t = call float @tanh(float %h)
  %u = fmul contract float %t, 0.5
  %r = fadd contract float %u, 0.5
  ret float %r
}}
define internal float @expm1(float %x) alwaysinline {ATTRIBUTES} {{
  %h = fmul float %x, 0.5
  %t = call float @tanh(float %h)
  %e = call float @exp(float %x)
  %u = fadd float %e, 1.0
  %r = fmul float %t, %u
  ret float %r
}}
define internal float @log1p(float %x) alwaysinline {ATTRIBUTES} {{
  %u = fadd float %x, 1.0
  %d = fsub float %u, 1.0
  %l = call float @log(float %u)
  %q = fdiv float %x, %d
  %y = fmul float %l, %q
  %tiny = fcmp oeq float %d, 0.0
  %y1 = select i1 %tiny, float %x, float %y
  %infinite = fcmp oeq float %u, 0x7FF0000000000000
  %z = select i1 %infinite, float %u, float %y1
  ret float %z
}}
"""

DECLARATIONS = "\n".join(
    f"declare float @llvm.{name}.f32({arguments})"
    for name, arguments in {
        "fabs": "float",
        "sqrt": "float",
        "sin": "float",
        "cos": "float",
        "pow": "float, float",
        "maximum": "float, float",
        "minimum": "float, float",
        "copysign": "float, float",
    }.items()
)

# All of them; LLVM drops what is not called.
FUNCTIONS = "\n".join([DECLARATIONS, _TANH, _ERF, _EXP, _LOG, _OTHERS])
