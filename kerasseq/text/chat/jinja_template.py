"""`JinjaTemplate`: the chat templates of Hugging Face."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

from kerasseq.core import packages
from kerasseq.core.checks import short
from kerasseq.core.messages import Message, checked
from kerasseq.core.schema import check

_NEEDS = "a chat template of Hugging Face needs the package of the extra `text`:"


@dataclasses.dataclass(frozen=True)
class JinjaTemplate:
    """A chat template of Hugging Face, written in Jinja.

    `models.from_pretrained` reads that of a folder. Templates cannot read files or call
    functions of Python. Needs the package `jinja2`.

    Args:
        source: The template.
        tokens: Special tokens by the names that it uses, such as "bos_token".

    Raises:
        ImportError: If the package `jinja2` is not installed.
        TypeError: If an argument has the wrong type.
        ValueError: If the template is damaged.

    Examples:
        >>> source = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
        >>> JinjaTemplate(source).render([{"role": "user", "content": "Hi"}])
        '[user] Hi'
    """

    source: str
    tokens: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.source, str):
            raise TypeError(f"source must be a string, received {short(self.source)}")
        check(self.tokens, {str: str}, "tokens")
        _compiled(self.source)  # raises for a damaged one

    def render(
        self, messages: Iterable[Message], add_generation_prompt: bool = False
    ) -> str:
        """Returns messages as text, as `ChatTemplate.render`.

        Raises:
            ValueError: If the template refuses the messages, besides the above.
        """
        messages = [dict(message) for message in checked(messages)]
        options = {"add_generation_prompt": add_generation_prompt, **self.tokens}
        template = _compiled(self.source)
        try:
            return template.render(messages=messages, **options)
        except Exception as error:  # of any class: the template is a program
            roles = [message["role"] for message in messages]
            raise ValueError(
                f"the chat template must take messages of the roles {roles}; it "
                f"reports: {error}"
            ) from error

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {"source": self.source, "tokens": dict(self.tokens)}


@functools.lru_cache(maxsize=16)
def _compiled(source):
    """Returns the template of Jinja, with what templates of Hugging Face use."""
    jinja2 = packages.load("jinja2", "jinja2", _NEEDS)
    ext = packages.load("jinja2.ext", "jinja2", _NEEDS)
    sandbox = packages.load("jinja2.sandbox", "jinja2", _NEEDS)

    class Generation(ext.Extension):
        """The tag around an answer, which `answers.parts` finds without it."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols]
    )
    environment.globals["raise_exception"] = raise_exception
    try:
        return environment.from_string(source)
    except jinja2.TemplateError as error:
        raise ValueError(
            f"a chat template must be in Jinja, received {short(source)}; it reports: "
            f"{error}"
        ) from error
