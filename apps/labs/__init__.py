"""The labs in course order: one file a lab, named as in its address."""

SECTIONS = {  # titles of the sections and the labs are in texts/*/common.toml
    "begin": ("start",),
    "recurrent": ("race", "gates", "gradients", "tape"),
    "language": ("language_model", "translation", "chat"),
    "transformers": (
        *(
            "attention",
            "positions",
            "window",
            "tokens",
            "bert",
            "vision",
            "count",
            "votes",
            "experts",
            "speech",
            "pictures",
        ),
    ),
}
COURSE = tuple(lab for labs in SECTIONS.values() for lab in labs)
