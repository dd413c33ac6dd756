"""How a reply came about."""

import dataclasses

from kerasseq.text.eliza.pattern import Template

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

    def __str__(self):
        lines = [("you said", " ".join(self.text.split()))]
        if self.clause:
            ranks = ", ".join(f"{name} (rank {rank})" for name, rank in self.keywords)
            lines += [("clause", self.clause), ("keywords", ranks)]
        lines += [("step", f"{k}: {p}: {which}") for k, p, which in self.steps]
        lines += self._source()
        lines.append(("reply", self.reply))
        return "\n".join(f"{name:<11}{value}" for name, value in lines)

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
