"""ELIZA, Weizenbaum's program of 1966, which answers by rules alone.

A remark is cut into clauses. In the first clause with a keyword whose rules fit, the
keyword of the highest rank decides: a pattern takes the clause apart, and one of the
replies of that pattern, each in its turn, is put together from the parts, turned round
to the listener's point of view ("my" becomes "your"). Some remarks leave a reply behind
in a memory, which is used when later nothing fits.

From: Weizenbaum, "ELIZA — A Computer Program For the Study of Natural Language
Communication Between Man And Machine", Communications of the ACM 9(1), 1966; course A,
whose dialogue `Eliza("en")` replays line for line, in capital letters too. The rules,
English and French, were written for kerasseq; they are not Weizenbaum's.

Left out: the counter that let the memory speak only at every fourth turn (here it is
asked whenever nothing fits), the choice of a memory rule by a hash of the last word
(here the first that fits), and editing rules in the middle of a conversation. Added:
agreement of verbs and elision, without which French cannot be turned round.
"""

import collections

from kerasseq.text.eliza.pattern import Place, Template
from kerasseq.text.eliza.rules import Keyword, Rule, load_rules
from kerasseq.text.eliza.trace import Trace
from kerasseq.text.eliza.words import fold


class Eliza:
    """Talk with ELIZA.

    Nothing is random: the same remarks after the same `reset` get the same replies.

    Args:
        rules: `"en"`, `"fr"`, or the path of a TOML file of rules of your own.

    Attributes:
        rules: As given.
        trace: How the last reply came about, a `Trace`; None before the first.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged or a rule wrong; the text says which.

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

    def __init__(self, rules="en"):
        self.rules = rules
        self._rules = load_rules(rules)
        self.reset()

    def reset(self) -> None:
        """Forget the conversation: start every list of replies anew."""
        self._turns = collections.Counter()
        self._memory = collections.deque()
        self.trace: Trace | None = None

    @property
    def greeting(self) -> str:
        """What ELIZA says first."""
        return self._rules.greeting

    @property
    def farewell(self) -> str:
        """What ELIZA says last."""
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
        """Tell whether a remark ends the conversation.

        Args:
            text: The remark.

        Returns:
            Whether it does. `reply` answers it with `farewell`.

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
            raise TypeError(f"`text` must be a string, got {type(text).__name__}.")
        return self._rules.splitter.clauses(text)

    def reply(self, text: str) -> str:
        """Answer a remark.

        Args:
            text: The remark: any string, also an empty one.

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
        """Tell how the last reply came about, a line for each step.

        Returns:
            The lines; see the class for an example.

        Raises:
            ValueError: Before the first `reply`.
        """
        if self.trace is None:
            raise ValueError("There is nothing to explain yet: call `reply` first.")
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
        """Answer a clause by the best of its keywords that has a rule that fits."""
        keys = [fold(word) for word in words]
        known = self._rules.keywords
        found = {known[k].name: known[k] for k in keys if k in known}
        # Sorting is stable: of equal ranks the keyword that came first goes first.
        ranked = sorted(found.values(), key=lambda keyword: -keyword.rank)
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
        """Return the reply whose turn it is: the first again after the last."""
        number = self._turns[place]
        self._turns[place] += 1
        return replies[number % len(replies)]

    def _keep(self, keyword: Keyword, words, keys, trace):
        """Make of the remark, if a memory rule fits, a reply for later."""
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
        """Put a reply together.

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
