"""Shows the repository on the site, and how to install kerasseq from there.

Pages are written for a copy of the repository: `pip install -e ".[torch]"`. Once
`kerasseq.core.packages` has an address, the site shows the command with the address.
"""

import re

import kerasseq.core.packages as packages

COPY = re.compile(r'(?<=pip install )-e (?:"\.\[([\w,]+)\]"|\.)(?=[\s`])')


def on_config(config):
    """Links the repository in the header."""
    config.repo_url = packages.REPOSITORY or None
    return config


def on_page_markdown(markdown, page, config, files):
    """Returns the page with the commands that install kerasseq."""
    return with_address(markdown)


def with_address(markdown):
    """Replaces what installs a copy by what installs from the address, if there is one.

    >>> with_address('`pip install -e ".[torch,viz]"`')
    '`pip install -e ".[torch,viz]"`'
    """
    return COPY.sub(
        lambda match: packages.requirement(*match[1].split(",") if match[1] else ()),
        markdown,
    )
