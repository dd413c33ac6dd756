"""ELIZA, Weizenbaum's program of 1966, which answers by rules alone.

An input is split into clauses. In the first clause with a matching rule, the keyword of
the highest rank is used: a pattern decomposes the clause, and the replies of that
pattern, used in rotation, are assembled from the parts, after reflection ("my" becomes
"your"). Some inputs store a reply in a memory, which is used when no rule matches.

From: Weizenbaum, "ELIZA — A Computer Program For the Study of Natural Language
Communication Between Man And Machine", Communications of the ACM 9(1), 1966; course A,
whose dialogue `Eliza("en")` replays line for line, in capital letters too. The rules,
English and French, were written for kerasseq; they are not Weizenbaum's.

Left out: the counter that allows the memory only at every fourth input (here it is used
whenever no rule matches), the choice of a memory rule by a hash of the last word (here
the first match), and editing rules during a conversation. Added: agreement of verbs and
elision, which French needs.
"""

import collections
import dataclasses
import os

from kerasseq.core.table import Table
from kerasseq.text.classical.eliza.pattern import Place, Template
from kerasseq.text.classical.eliza.rules import Keyword, Rule, load_rules
from kerasseq.text.classical.eliza.words import fold

_WITHOUT_RULE = {
    "farewell": "the remark says goodbye",
    "silence": "the remark has no words: the next reply to silence",
    "default": "nothing fits, and the memory is empty: the next of the default replies",
}


@dataclasses.dataclass
class Trace:
    """How a reply came about. `str` writes it line by line.

    Attributes:
        text: What was said.
        reply: The reply.
        source: `"keyword"`, `"memory"`, `"default"`, `"silence"` or `"farewell"`.
        clause: The clause that was answered, after the substitutions; the last one
            with keywords if no rule fitted.
        keywords: The keywords in it with their ranks, in the order they are tried.
        steps: For each `goto` and `newkey` on the way: keyword, pattern, and which.
        keyword: The keyword whose rule gave the reply.
        pattern: The pattern that fitted.
        parts: What each of its parts stood for.
        template: The reply before the parts were put in.
        reflected: For each place in it: the place, the words before and after they
            were turned round.
        kept: The reply put into the memory for later.
        recalled: The earlier remark that a reply out of the memory was made from.
    """

    text: str
    reply: str = ""
    source: str = ""
    clause: str = ""
    keywords: tuple[tuple[str, int], ...] = ()
    steps: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    keyword: str = ""
    pattern: str = ""
    parts: tuple[str, ...] = ()
    template: Template | None = None
    reflected: tuple[tuple[str, str, str], ...] = ()
    kept: str = ""
    recalled: str = ""

    def __str__(self) -> str:
        return "\n".join(f"{name:<11}{value}" for name, value in self._lines())

    def _repr_html_(self) -> str:
        return Table(self._lines()).html()

    def _lines(self):
        lines = [("you said", " ".join(self.text.split()))]
        if self.clause:
            ranks = ", ".join(f"{name} (rank {rank})" for name, rank in self.keywords)
            lines += [("clause", self.clause), ("keywords", ranks)]
        lines += [("step", f"{k}: {p}: {which}") for k, p, which in self.steps]
        lines += self._source()
        return [*lines, ("reply", self.reply)]

    def _source(self):
        if self.source == "memory":
            return [("memory", f"nothing fits; from earlier: {self.recalled}")]
        if self.source != "keyword":
            return [("rule", _WITHOUT_RULE[self.source])]
        parts = ", ".join(f'{i} "{part}"' for i, part in enumerate(self.parts, 1))
        lines = [
            ("keyword", self.keyword),
            ("pattern", self.pattern),
            ("parts", parts),
            ("template", self.template.text),
        ]
        for place, said, put in self.reflected:
            lines.append(("reflected", f'{place} "{said}" -> "{put}"'))
        return [*lines, *([("kept", self.kept)] if self.kept else [])]


class Eliza:
    """ELIZA, a chatbot with rules.

    Replies are deterministic: the same inputs after `reset` have the same replies.

    Args:
        rules: `"en"`, `"fr"`, or the path of a TOML file of rules of your own.

    Attributes:
        rules: As given.
        trace: How the last reply came about, a `Trace`; None before the first.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, or a rule is invalid.

    Examples:
        >>> eliza = Eliza()
        >>> eliza.reply("Well, my boyfriend made me come here.")
        'Is it important to you that your boyfriend made you come here?'
        >>> print(eliza.explain())
        you said   Well, my boyfriend made me come here.
        clause     my boyfriend made me come here
        keywords   my (rank 2)
        keyword    my
        pattern    * my + @acts *
        parts      1 "", 2 "my", 3 "boyfriend", 4 "made", 5 "me come here"
        template   Is it important to you that your {3-5}?
        reflected  {3-5} "boyfriend made me come here" -> "boyfriend made you come here"
        kept       Earlier you spoke of your boyfriend.
        reply      Is it important to you that your boyfriend made you come here?
        >>> Eliza("fr").reply("Je déteste mon travail.")
        'Depuis quand est-ce que vous détestez votre travail ?'
    """

    def __init__(self, rules: str | os.PathLike[str] = "en"):
        self.rules: str | os.PathLike[str] = rules
        self._rules = load_rules(rules)
        self.reset()

    def reset(self) -> None:
        """Resets the conversation."""
        self._turns = collections.Counter()
        self._memory = collections.deque()
        self.trace: Trace | None = None

    @property
    def greeting(self) -> str:
        """The greeting."""
        return self._rules.greeting

    @property
    def farewell(self) -> str:
        """The farewell."""
        return self._rules.farewell

    @property
    def memory(self) -> tuple[str, ...]:
        """The replies kept for later, the next one first."""
        return tuple(reply for reply, _ in self._memory)

    @property
    def keywords(self) -> dict[str, int]:
        """Each keyword with its rank, the highest first."""
        keywords = {k.name: k.rank for k in self._rules.keywords.values()}
        return dict(sorted(keywords.items(), key=lambda item: -item[1]))

    def is_goodbye(self, text: str) -> bool:
        """Returns whether an input is a goodbye, which `reply` answers with `farewell`.

        Args:
            text: The input.

        Examples:
            >>> Eliza().is_goodbye("Goodbye, Eliza!"), Eliza().is_goodbye("Good grief!")
            (True, False)
        """
        return self._is_goodbye(self._clauses(text))

    def _is_goodbye(self, clauses) -> bool:
        keys = [fold(word) for clause in clauses for word in clause]
        return any(pattern.match(keys) for pattern in self._rules.goodbyes)

    def _clauses(self, text):
        if not isinstance(text, str):
            raise TypeError(f"`text` must be a string, received {type(text).__name__}.")
        return self._rules.splitter.clauses(text)

    def reply(self, text: str) -> str:
        """Returns the reply to an input.

        Args:
            text: The input, which may be empty.

        Returns:
            The reply, never empty.

        Raises:
            TypeError: If `text` is not a string.

        Examples:
            >>> eliza = Eliza()
            >>> eliza.reply("I am sad.")
            'I am sorry to hear that you are sad.'
            >>> eliza.reply("I am sad.")
            'Can you explain what made you sad?'
        """
        clauses = self._clauses(text)
        self.trace = trace = Trace(text)
        trace.reply = self._find(clauses, trace)
        return trace.reply

    def explain(self) -> str:
        """Explains the last reply, with a line for each step.

        Returns:
            The lines; see the class for an example.

        Raises:
            ValueError: Before the first `reply`.
        """
        if self.trace is None:
            raise ValueError("There is no reply to explain. Call `reply` first.")
        return str(self.trace)

    def _find(self, clauses, trace) -> str:
        if not clauses:
            return self._without_keyword("silence", self._rules.silence, trace)
        if self._is_goodbye(clauses):
            trace.source = "farewell"
            return self.farewell
        for words in clauses:
            reply = self._by_keyword(words, trace)
            if reply is not None:
                return reply
        if self._memory:
            reply, trace.recalled = self._memory.popleft()
            trace.source = "memory"
            return reply
        return self._without_keyword("default", self._rules.default, trace)

    def _without_keyword(self, source, replies, trace) -> str:
        trace.source = source
        trace.template = self._in_turn(source, replies)
        return trace.template.text

    def _by_keyword(self, words, trace) -> str | None:
        """Returns the reply of the best keyword with a matching rule."""
        keys = [fold(word) for word in words]
        known = self._rules.keywords
        by_name = {known[k].name: known[k] for k in keys if k in known}
        # Sorting is stable: of equal ranks the keyword that came first goes first.
        ranked = sorted(by_name.values(), key=lambda keyword: -keyword.rank)
        if ranked:
            trace.clause = " ".join(words)
            trace.keywords = tuple((k.name, k.rank) for k in ranked)
        for keyword in ranked:
            reply = self._by_rules(keyword, words, keys, trace)
            if reply is not None:
                trace.source = "keyword"
                self._keep(ranked[0], words, keys, trace)  # by newkey, it may differ
                return reply
        return None

    def _by_rules(self, keyword: Keyword, words, keys, trace) -> str | None:
        for rule in keyword.rules:
            spans = rule.pattern.match(keys)
            if spans is None:
                continue
            template = self._in_turn((keyword.name, rule.pattern.text), rule.replies)
            if not template.pieces:
                trace.steps.append((keyword.name, rule.pattern.text, template.text))
            if template.newkey:
                return None
            if template.goto is not None:
                target = self._rules.keywords[template.goto]
                return self._by_rules(target, words, keys, trace)
            trace.keyword, trace.template = keyword.name, template
            trace.pattern = rule.pattern.text
            trace.parts = tuple(" ".join(words[a:b]) for a, b in spans)
            reply, trace.reflected = self._assemble(template, words, spans)
            return reply
        return None

    def _in_turn(self, place, replies) -> Template:
        """Returns the next reply, in rotation."""
        number = self._turns[place]
        self._turns[place] += 1
        return replies[number % len(replies)]

    def _keep(self, keyword: Keyword, words, keys, trace):
        """Generates of the remark, if a memory rule fits, a reply for later."""
        for rule in keyword.memory:
            spans = rule.pattern.match(keys)
            if spans is not None:
                trace.kept = self._later(keyword, rule, words, spans)
                self._memory.append((trace.kept, trace.text))
                return

    def _later(self, keyword: Keyword, rule: Rule, words, spans) -> str:
        place = (keyword.name, "memory", rule.pattern.text)
        return self._assemble(self._in_turn(place, rule.replies), words, spans)[0]

    def _assemble(self, template: Template, words, spans):
        """Assembles a reply.

        Returns:
            The reply, and for each place in it the words before and after reflection.
        """
        elision, reflected, reply = self._rules.splitter.elision, [], ""
        for piece in template.pieces:
            if isinstance(piece, Place):
                said = words[spans[piece.first - 1][0] : spans[piece.last - 1][1]]
                put = said if piece.said else self._rules.reflection(said)
                reflected.append((piece.text, " ".join(said), " ".join(put)))
                piece = elision.text(put)
            reply += piece
        reply = elision.join(reply)
        return reply[:1].upper() + reply[1:], tuple(reflected)
