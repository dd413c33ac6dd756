"""Colors of figures in the library, in the app and in the documentation."""

# Okabe and Ito 2008 and Tol 2021, for every kind of color vision; lighter on dark.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#882255", "#b8860b", "#117733", "#666666")
LIGHT += ("#5e35b1", "#8a5a2b")
DARK = ("#56b4e9", "#ff8c42", "#2ecc9b", "#e29ac7", "#f0c808", "#8fd694", "#bbbbbb")
DARK += ("#b794f6", "#d7a06c")
INK = ("#1f2430", "#f2f2f2")  # text, on light and on dark
PAPER = ("#ffffff", "#0e1117")
