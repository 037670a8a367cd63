"""The text: what ships with CPython, in a fixed order, with a held-out split.

A document is either one entry of ``pydoc_data.topics`` (the language reference as shown by ``help()``) or the
source of one pure-Python standard-library module.  Documents are ordered by name and cut, between paragraphs, into
stretches of about ``STRETCH`` characters; every ``HELDOUT_EVERY``-th stretch is held out.  The topics repeat each
other, so a training paragraph that also occurs in held-out text, or earlier in the training text, is dropped.

The text is a function of the Python minor version (topics and modules change between versions, a little between
patch releases too): ``corpus_hash`` tells two texts apart.
"""

import functools
import hashlib
import random
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from pydoc_data import topics

STRETCH = 6000
HELDOUT_EVERY = 12
MODULES = [
    "abc",
    "argparse",
    "ast",
    "asyncio/base_events",
    "asyncio/events",
    "asyncio/queues",
    "asyncio/tasks",
    "base64",
    "bdb",
    "bisect",
    "calendar",
    "cmd",
    "codecs",
    "collections/__init__",
    "concurrent/futures/_base",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "doctest",
    "email/message",
    "enum",
    "fileinput",
    "fnmatch",
    "fractions",
    "functools",
    "gettext",
    "glob",
    "gzip",
    "heapq",
    "html/parser",
    "http/client",
    "inspect",
    "ipaddress",
    "json/decoder",
    "json/encoder",
    "logging/__init__",
    "mailbox",
    "optparse",
    "pathlib",
    "pdb",
    "pickle",
    "pprint",
    "pydoc",
    "queue",
    "random",
    "re/__init__",
    "sched",
    "selectors",
    "shutil",
    "socket",
    "statistics",
    "string",
    "subprocess",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "timeit",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "unittest/case",
    "unittest/mock",
    "uuid",
    "warnings",
    "weakref",
    "zipfile",
]

_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*?(?=[^\n])")


@dataclass(frozen=True)
class Corpus:
    """Two tuples of stretches of text; ``train`` has no paragraph in common with ``heldout``."""

    train: tuple[str, ...]
    heldout: tuple[str, ...]


def _documents() -> list[str]:
    named = {f"topic {name}": text for name, text in topics.topics.items()}
    root = Path(sysconfig.get_paths()["stdlib"])
    for name in MODULES:
        path = root / f"{name}.py"
        if path.exists():
            named[f"module {name}"] = path.read_text(encoding="utf-8")
    return [named[name].strip() + "\n" for name in sorted(named)]


def _paragraphs(text: str) -> list[str]:
    return [p for p in _BLANK_LINES.split(text) if p.strip()]


def _stretches() -> list[list[str]]:
    """Lists of consecutive paragraphs of one document, each list about ``STRETCH`` characters."""
    stretches = []
    for text in _documents():
        size = STRETCH
        for paragraph in _paragraphs(text):
            if size >= STRETCH:
                stretches.append([])
                size = 0
            stretches[-1].append(paragraph)
            size += len(paragraph)
    return stretches


@functools.cache
def corpus() -> Corpus:
    """All the text, split."""
    stretches = _stretches()
    heldout = stretches[HELDOUT_EVERY // 2 :: HELDOUT_EVERY]
    seen = {paragraph.strip() for stretch in heldout for paragraph in stretch}
    train = []
    for index, stretch in enumerate(stretches):
        if index % HELDOUT_EVERY == HELDOUT_EVERY // 2:
            continue
        kept = []
        for paragraph in stretch:
            if paragraph.strip() not in seen:
                seen.add(paragraph.strip())
                kept.append(paragraph)
        if kept:
            train.append(kept)
    return Corpus(*(tuple("\n\n".join(s) + "\n" for s in part) for part in (train, heldout)))


def corpus_hash() -> str:
    """SHA-256 of the training and held-out text, in order."""
    digest = hashlib.sha256()
    for part in (corpus().train, corpus().heldout):
        for text in part:
            digest.update(text.encode())
            digest.update(b"\0")
        digest.update(b"\1")
    return digest.hexdigest()


def heldout_prompts(n: int, seed: int = 0, chars: int = 400) -> list[str]:
    """``n`` pieces of held-out text, each starting at a paragraph and about ``chars`` characters long.

    No training paragraph occurs in them.  The same ``n``, ``seed`` and Python give the same prompts.
    """
    rng = random.Random(seed)
    stretches = [text for text in corpus().heldout if len(text) >= 2 * chars]
    prompts = []
    while len(prompts) < n:
        text = rng.choice(stretches)
        starts = [0] + [m.end() for m in _BLANK_LINES.finditer(text) if m.end() + chars <= len(text)]
        start = rng.choice(starts)
        prompts.append(text[start : start + chars].rstrip())
    return prompts
