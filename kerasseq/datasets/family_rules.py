"""The rules of the grammar of `family_sentences`: how a meaning becomes a sentence."""

from kerasseq.datasets.family_grammar import (
    OPPOSITE,
    FamilyTree,
    Frame,
    Grammar,
    Person,
    subjects,
)

Children = tuple[FamilyTree | str, ...]
# What precedes a sentence about x and the child, and its subject.
TOGETHER = (
    ("avec {x},", "<on>"),
    ("quand <je> suis avec {x},", "<on>"),
    ("", "{x} et <moi>, <on>"),
)
PARENTS, SIBLINGS = set("mp"), set("fs")
# Ways to express a good or a bad relation, with their shares.
WAYS = {"statement": 30, "denial": 22, "contrast": 14, "change": 14, "irony": 10}
NEW_WAYS = {**WAYS, "question": 8}  # outside of labeled training
NEUTRAL_WAYS = {"statement": 40, "alternation": 35, "neither": 25}


class Rules:
    """Builds the tree of a sentence that expresses a meaning.

    Args:
        grammar: The grammar of a part.
    """

    def __init__(self, grammar: Grammar):
        self.grammar: Grammar = grammar

    def text(self, valence: str, people: str) -> FamilyTree:
        """Returns the tree of a text.

        Args:
            valence: "+", "-", "0", "i", or "+-" for both.
            people: The labels of the subjects.
        """
        me, others = "j" in people, people.replace("j", "")
        start: Children = ()
        if "a" in others and len(others) > 1:
            others = others.replace("a", "")
            start = (*self._entry(self.grammar.text("family")), ",")
        others = "".join(self.grammar.shuffled(others))
        if valence == "i":
            main = self.facts(me, others)
        elif valence == "+-":
            main = self.mixed(others)
        else:
            main = self.relation(valence, me, others)
        return FamilyTree("text", "", (*start, *main))

    def _entry(self, entry, x=None):
        return self.grammar.expand(entry, x)

    def _way(self, ways: dict[str, int]) -> str:
        return self.grammar.pick([name for name, n in ways.items() for _ in range(n)])

    # Relations

    def relation(self, valence: str, me: bool, people: str) -> Children:
        """Returns a good, bad or neutral relation, and what is added about persons."""
        grammar = self.grammar
        first, rest = people, ""
        if me and len(people) > 1 and grammar.chance(0.5):
            cut = 1 + int(grammar.rng.random() * (len(people) - 1))
            first, rest = people[:cut], people[cut:]
        opening = self._opening()
        if rest and grammar.chance(0.5):  # the same about others
            frame = self.frame(me, first)
            main = self.simple(frame, valence)
            person = grammar.person("".join(rest))
            return (*opening, main, *self._entry(grammar.text("echo"), person))
        frame = self.frame(me, first)
        main = self.express(frame, valence)
        return (*opening, main, *self._added(rest, frame))

    def _opening(self) -> Children:
        if not self.grammar.chance(0.2):
            return ()
        return (*self._entry(self.grammar.text("opening")), ",")

    def _added(self, rest: str, frame: Frame | None) -> Children:
        """Facts about more persons; or, sometimes, about those of the sentence."""
        grammar = self.grammar
        if rest:
            link = grammar.text("link")
            return (link.strip(), self.fact(rest))
        person = frame.x if frame else None
        if person is None or not grammar.chance(0.15) or "a" in subjects(person.tree):
            return ()
        fact = grammar.pick(grammar.table["facts"]["x"])
        children = grammar.expand(f"{{pro}} {fact}", person, plural=person.plural)
        return (",", FamilyTree("clause", "i", children))

    def frame(self, me: bool, people: str) -> Frame:
        """Chooses who is the subject, and the kind of verb phrase."""
        grammar = self.grammar
        if not me:
            return self._frame_of_others(people)
        x = grammar.person(people)
        kind = grammar.pick(("together", "together", "toward_me", "mine", "mine"))
        if kind == "mine":
            return Frame("", "<je>", "<je>", "mine", False, x)
        if kind == "toward_me":
            return Frame("", "{x}", "{pro}", "toward_me", x.plural, x)
        joint = x.tree.kind == "text"  # "A et B et moi" would be clumsy
        lead, subject = grammar.pick(TOGETHER[: 2 if joint else 3])
        return Frame(lead, subject, "<on>", "together", False, x)

    def _frame_of_others(self, people: str) -> Frame:
        grammar = self.grammar
        if people == "a":
            lead = grammar.text("family") + ","
            return Frame(lead, "on", "on", "together", False, None)
        if len(people) == 2 and grammar.chance(0.35):
            x, y = (grammar.person(label) for label in people)
            return Frame("", "{x}", "{pro}", "toward_other", x.plural, x, y)
        x = grammar.person("".join(sorted(people)))
        is_couple = set(people) == PARENTS and grammar.chance(0.4)
        kind = "couple" if is_couple else "together"
        return Frame("", "{x}", "{pro}", kind, True, x)

    def express(self, frame: Frame, valence: str) -> FamilyTree:
        """Expresses a valence in one of the ways that the frame has."""
        grammar = self.grammar
        if valence == "0":
            way = self._way(NEUTRAL_WAYS)
            if way == "statement" or frame.phrases in ("mine", "toward_other"):
                return grammar.clause(frame, "0")
            return getattr(self, f"_{way}")(frame)
        way = self._way(WAYS if grammar.part == "training" else NEW_WAYS)
        if way in ("statement", "denial"):
            return self.simple(frame, valence)
        if way in ("irony", "question"):
            return getattr(self, f"_{way}")(frame, valence)
        if frame.phrases in ("mine", "toward_other"):
            return self.simple(frame, valence)
        return getattr(self, f"_{way}")(frame, valence)

    def simple(self, frame: Frame, valence: str) -> FamilyTree:
        """States a valence, or denies its opposite."""
        if valence == "0":
            return self.grammar.clause(frame, "0")
        if self.grammar.chance(0.58):
            return self.grammar.clause(frame, valence)
        return self.grammar.clause(frame, OPPOSITE[valence], denied=True)

    def _contrast(self, frame, valence):
        """Contrasts two clauses: `on ne se dispute pas, on rigole`."""
        grammar, opposite = self.grammar, OPPOSITE[valence]
        if grammar.chance(0.5):
            first = grammar.clause(frame, opposite, denied=True)
            second = grammar.clause(frame, valence, again=True)
        else:
            first = grammar.clause(frame, valence)
            second = grammar.clause(frame, opposite, denied=True, again=True)
        return FamilyTree(
            "text", "", (first, grammar.pick((",", ", mais", "et")), second)
        )

    def _change(self, frame, valence):
        """Returns a change, of which the present counts.

        For example `avant on se disputait, plus maintenant`.
        """
        grammar, opposite = self.grammar, OPPOSITE[valence]
        if frame.phrases == "couple" or grammar.chance(0.3):
            return self._war_and_peace(frame, valence)
        denied = grammar.chance(0.4)
        then = valence if denied else opposite
        before = grammar.text("before")
        now = grammar.text("now")
        if grammar.chance(0.6):
            past = grammar.clause(
                frame, then, denied=denied, past=True, lead=f"{before},"
            )
            present = self._either(frame, valence, again=True, lead=now)
            children = (FamilyTree("before", "", (past,)), ",", present)
        else:
            past = grammar.clause(frame, then, denied=denied, past=True, again=True)
            present = self._either(frame, valence, lead=f"{now},")
            link = ", alors qu'avant"
            children = (present, FamilyTree("before", "", (link, past)))
        return FamilyTree("text", "", children)

    def _either(self, frame, valence, **options):
        """Returns a phrase of a valence, or a negation of the opposite."""
        denied = self.grammar.chance(0.3)
        shown = OPPOSITE[valence] if denied else valence
        return self.grammar.clause(frame, shown, denied=denied, **options)

    def _war_and_peace(self, frame, valence):
        grammar = self.grammar
        then, now = grammar.text("war"), grammar.text("peace")
        if valence == "-":
            then, now = now, then
        if frame.phrases == "toward_me" or frame.again == "<on>":
            joint = frame.x.tree.kind == "text"
            where = "pour <moi>, avec {x}," if joint else "entre {x} et <moi>,"
        else:
            where = "entre {x}," if frame.x else frame.lead
        before = FamilyTree("clause", OPPOSITE[valence], (f"avant c'était {then}",))
        after = FamilyTree("clause", valence, (f"maintenant c'est {now}",))
        parts: Children = (FamilyTree("before", "", (before,)), ",", after)
        if grammar.chance(0.5):
            parts = (after, ",", FamilyTree("before", "", (before,)))
        return FamilyTree("text", "", (*self._entry(where, frame.x), *parts))

    def _irony(self, frame, valence):
        """Means the opposite: `on ne se dispute jamais, juste vingt fois par jour`."""
        grammar = self.grammar
        literal = self.simple(frame, OPPOSITE[valence])
        name = "irony_of_war" if valence == "+" else "irony_of_peace"
        if literal.kind == "not" and valence == "-" and grammar.chance(0.5):
            name = "irony_of_acts"
        remark = grammar.text(name)
        return FamilyTree("irony", "", (literal, ",", *self._entry(remark)))

    def _question(self, frame, valence):
        """Asks and answers: `est-ce qu'on se dispute ? jamais !`."""
        grammar = self.grammar
        frame = frame._replace(subject=f"est-ce que {frame.subject}")
        denied = grammar.chance(0.5)
        shown = OPPOSITE[valence] if denied else valence
        asked = grammar.clause(frame, shown, plain=True)
        if denied:
            return FamilyTree("not", "", (asked, grammar.text("denial")))
        return FamilyTree("text", "", (asked, grammar.text("assent")))

    def _alternation(self, frame):
        """Makes a sentence such as `des fois on rigole, des fois on se dispute`."""
        grammar = self.grammar
        first, second = grammar.shuffled("+-")
        times = grammar.text("sometimes"), grammar.text("sometimes")
        children = (
            grammar.clause(frame, first, plain=True, lead=times[0]),
            grammar.pick((",", "et", ", mais")),
            self._either(frame, second, again=True, plain=True, lead=times[1]),
        )
        return FamilyTree("balance", "", children)

    def _neither(self, frame):
        """Denies both: `on ne se dispute pas, mais on ne rigole pas non plus`."""
        grammar = self.grammar
        first, second = grammar.shuffled("+-")
        children = (
            grammar.clause(frame, first, denied=True, negation="pas"),
            ", mais",
            grammar.clause(frame, second, denied=True, again=True, negation="pas"),
            "non plus",
        )
        return FamilyTree("balance", "", children)

    def mixed(self, people: str) -> Children:
        """Returns a good relation to some and a bad one to others."""
        grammar = self.grammar
        first, second = grammar.shuffled("+-")
        cut = 1 + int(grammar.rng.random() * (len(people) - 1))
        frame = self.frame(True, people[:cut])
        other = grammar.person(people[cut:])
        if grammar.chance(0.4):
            frame = frame._replace(lead="", subject="<je>", phrases="mine")
            main = grammar.clause(frame._replace(plural=False), first)
            elided = FamilyTree(
                "clause", first, ("mais pas", *self._entry("avec {x}", other))
            )
            if "avec" in main.words():
                return (main, ",", FamilyTree("not", "", (elided,)))
        main = self.simple(frame, first)
        frame = Frame("avec {x},", "<on>", "<on>", "together", False, other)
        link = grammar.pick((", mais", ", alors que", ", par contre"))
        return (main, link, self.simple(frame, second))

    # Facts

    def facts(self, me: bool, people: str) -> Children:
        """Returns facts about persons."""
        if not me:
            return self._facts_of_others(people)
        grammar = self.grammar
        facts = grammar.table["facts"]
        if not people:
            return self._facts_of_me()
        if people == "a":
            return (self._clause(grammar.pick(facts["ja"])),)
        special = "j" + "".join(sorted(people))
        if special in facts and grammar.chance(0.4):
            return (self._clause(grammar.pick(facts[special])),)
        if grammar.chance(0.25):
            mine = self._clause(grammar.pick(facts["j"]))
            return (mine, grammar.text("link"), *self._separate(people))
        cut = 1 + int(grammar.rng.random() * len(people))
        x = grammar.person(people[:cut])
        main = self._clause(grammar.pick(facts["jx"]), x)
        frame = Frame("", "", "", "", x.plural, x)
        return (*self._opening(), main, *self._added(people[cut:], frame))

    def _facts_of_me(self) -> Children:
        facts = self.grammar.table["facts"]["j"]
        first = self._clause(self.grammar.pick(facts))
        if self.grammar.chance(0.5):
            return (*self._opening(), first)
        return (first, "et", self._clause(self.grammar.pick(facts)))

    def _facts_of_others(self, people: str) -> Children:
        grammar = self.grammar
        if people == "a":
            return (self._clause(grammar.pick(grammar.table["facts"]["a"])),)
        if len(people) == 1 and grammar.chance(0.3):
            x = grammar.person(people)
            return (self.fact(people, x), "et", self.fact(people, x, "{pro}"))
        return (*self._opening(), *self._separate(people))

    def _separate(self, people: str) -> Children:
        """Returns one fact about all, or one about each."""
        if len(people) == 1 or self.grammar.chance(0.3):
            return (self.fact(people),)
        children: list[FamilyTree | str] = []
        for label in people:
            children += ["et"] if children else []
            children.append(self.fact(label))
        return tuple(children)

    def fact(
        self, people: str, x: Person | None = None, subject: str = "{x}"
    ) -> FamilyTree:
        """Returns a fact about persons, without valence."""
        grammar = self.grammar
        x = x or grammar.person("".join(sorted(people)))
        facts = list(grammar.table["facts"]["x"])
        for group, name in ((PARENTS, "parent"), (SIBLINGS, "sibling")):
            if set(people) <= group:
                facts += grammar.table["facts"][name] * 2
        return self._clause(f"{subject} {grammar.pick(facts)}", x)

    def _clause(self, entry, x=None):
        plural = x is not None and x.plural
        # In "ma mère m'emmène" the verb agrees with x, in "je vais" with the child.
        return FamilyTree("clause", "i", self.grammar.expand(entry, x, plural=plural))
