"""Removes the large script of mermaid from pages that have no diagram."""

import re

SCRIPT = re.compile(r'\s*<script src="[^"]*/mermaid\.min\.js"></script>')


def on_post_page(output, page, config):
    """Returns the page, without the script if it is not needed."""
    return output if 'class="mermaid"' in output else SCRIPT.sub("", output)
