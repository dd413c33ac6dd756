"""`python -m kerasseq` is the command `kerasseq`."""

import sys

from kerasseq.cli import main

if __name__ == "__main__":
    sys.exit(main())
