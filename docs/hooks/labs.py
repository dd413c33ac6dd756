"""Links to labs of the app: `[Tokens](lab:tokens?view=ngrams)`, at one address.

The address is `extra: app` in mkdocs.yml, that which `kerasseq app` opens: a browser
finds its runs again under the same name of the host only.
"""

import re

LINK = re.compile(r"\]\(lab:([^)\s]*)\)")


def on_page_markdown(markdown, page, config, files):
    """Returns the page with addresses in place of names of labs."""
    return LINK.sub(rf"]({config.extra['app']}/\1)", markdown)
