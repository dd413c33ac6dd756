"""Visits the app with many browsers at once, and prints how long pages take.

    python -m tests.browser.load [--visitors 20] [--rounds 3]

A teacher opens each page once, while the server still loads its backend. Then two
trainings run, and each visitor opens one page after another with an address of its own,
and thinks for some seconds between them. A visitor here is a connection without a
screen: it sends what a browser sends, and waits until the script of the page has ended,
so that this machine serves and does not also draw. Each page must show what its address
says, and nothing of another visitor.
"""

import argparse
import asyncio
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

from tests.browser.server import serving
from tests.processes import clean_environment

LIMIT = 3.0  # seconds that a page may take
THINK = (8.0, 20.0)  # seconds between two pages
PAGES = {  # what the page of a visitor must show: the text is its own
    "tokens": "text=own{n}+own{n}+low&lang={lang}",
    "count": "model=bloom&lang={lang}",
    "gradients": "lang={lang}",
    "race": "lang={lang}",
}


class Visitor:
    """A browser without a screen."""

    def __init__(self, number, address):
        self.number, self.address = number, address
        self.language = ("en", "fr")[number % 2]
        self.hash, self.times = "", []

    async def connect(self):
        """Opens a session."""
        url = self.address.replace("http", "ws") + "/_stcore/stream"
        headers = {"Origin": self.address, "Cookie": f"kerasseq_browser={self.key}"}
        options = {"additional_headers": headers, "max_size": 2**28}
        # It reads nothing while it thinks, so it neither answers nor awaits pings.
        options |= {"max_queue": None, "ping_interval": None}
        self.socket = await connect(url, subprotocols=["streamlit"], **options)

    @property
    def key(self):
        """The key of this browser."""
        return f"{self.number:032x}"

    async def open(self, page, query):
        """Opens a page, and returns all that it shows and the seconds that it took."""
        message = BackMsg()
        message.rerun_script.page_name = page
        message.rerun_script.query_string = query
        started = time.monotonic()
        await self.socket.send(message.SerializeToString())
        shown = []
        while True:
            answer = ForwardMsg.FromString(await self.socket.recv())
            kind = answer.WhichOneof("type")
            if kind == "delta":
                shown.append(str(answer.delta))
            if kind == "script_finished":
                return "".join(shown), time.monotonic() - started

    async def visit(self, rounds):
        """Opens all pages, some times."""
        await asyncio.sleep(random.uniform(0, THINK[1]))
        for _ in range(rounds):
            for page, query in random.sample(sorted(PAGES.items()), len(PAGES)):
                query = query.format(n=self.number, lang=self.language)
                shown, seconds = await self.open(page, query)
                self.times.append((seconds, page))
                self.check(page, shown)
                await asyncio.sleep(random.uniform(*THINK))

    def check(self, page, shown):
        """Raises if the page shows an error or what another visitor typed."""
        own = f"own{self.number} "
        others = [f"own{n} " for n in range(100) if n != self.number]
        assert page != "tokens" or own in shown, f"{page} lacks {own}"
        assert not any(other in shown for other in others), f"{page}: another's text"
        assert "exception" not in shown


async def crowd(address, visitors, rounds, folder):
    """Lets all visit at the same time, beside two trainings; returns the times."""
    teacher = Visitor(visitors, address)
    await teacher.connect()
    for page, query in PAGES.items():
        query = query.format(n=teacher.number, lang=teacher.language)
        _, seconds = await teacher.open(page, query)
        print(f"{page:10} first visit {seconds:.2f} s")
    people = [Visitor(n, address) for n in range(visitors)]
    for each in people:
        await each.connect()
    trainings = [_train(folder, n) for n in range(2)]
    try:
        await asyncio.gather(*(each.visit(rounds) for each in people))
    finally:
        for training in trainings:
            training.terminate()
            training.wait(60)
    return [pair for each in people for pair in each.times]


def _train(folder, number):
    """Starts a training as the app does: in a process of its own, with one thread."""
    words = ["kerasseq", "train", "parentheses", "--model", "lstm", "--threads", "1"]
    words += ["--steps", "1000000", "--run", str(folder / f"training{number}")]
    nice = ["nice", "-n", "10"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = clean_environment({"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"})
    command = [*nice, sys.executable, "-m", *words]
    return subprocess.Popen(command, env=environment, process_group=0, **quiet)


def main():
    """Prints the times of all pages; the exit code is 1 if one took too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(folder) as address:
        folder = pathlib.Path(folder)
        times = asyncio.run(crowd(address, args.visitors, args.rounds, folder))
    for page in PAGES:
        found = sorted(t for t, name in times if name == page)
        median, most = statistics.median(found), found[-1]
        print(
            f"{page:10} {len(found):3} visits, median {median:.2f} s, most {most:.2f}"
        )
    late = sum(t > LIMIT for t, _ in times)
    print(f"{late} of {len(times)} pages took more than {LIMIT:g} s")
    return int(late > 0)


if __name__ == "__main__":
    raise SystemExit(main())
