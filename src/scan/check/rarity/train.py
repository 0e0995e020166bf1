#!/usr/bin/env python3
"""Makes `bigrams.bin`, the table by which `rarity.rs` tells a random value from an identifier.

Usage: python3 src/scan/check/rarity/train.py FOLDER

FOLDER holds `benign_long.jsonl` and `injection.jsonl` (rows of label 0), whose words, paths and identifiers are
counted. Each cell of the table is eight times the binary logarithm of how much likelier one character follows
another in such text than in a random value of letters and digits. The same texts give the same bytes.
"""

import collections
import json
import math
import pathlib
import re
import string
import sys

LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits + "_-./"
OTHER, EDGE, SYMBOLS = len(LETTERS), len(LETTERS) + 1, len(LETTERS) + 2
PLACES = {letter: place for place, letter in enumerate(LETTERS)}
RANDOM_SYMBOLS = 62
WORD = re.compile(r"[A-Za-z0-9_./+=~-]{3,120}")
HEX_RUN = re.compile(r"[0-9a-f]{16}")
LONG_RUN = re.compile(r"[A-Za-z0-9+/]{41}")
SWITCHES_MAX = 3


def is_word(word):
    """Leaves out what may be random itself: much switching between letters and digits, digests, base64."""
    pairs = zip(word, word[1:])
    switches = sum(a.isalnum() and b.isalnum() and a.isalpha() != b.isalpha() for a, b in pairs)
    return switches <= SWITCHES_MAX and not HEX_RUN.search(word) and not LONG_RUN.search(word)


def texts(folder):
    for name, label in (("benign_long.jsonl", None), ("injection.jsonl", 0)):
        for line in (folder / name).open(encoding="utf-8"):
            row = json.loads(line)
            if label is None or row["label"] == label:
                yield row["text"]


def main():
    words = collections.Counter()
    for text in texts(pathlib.Path(sys.argv[1])):
        words.update({word for word in WORD.findall(text) if is_word(word)})
    counts = [[0.5] * SYMBOLS for _ in range(SYMBOLS)]
    for word, times in sorted(words.items()):
        path = [EDGE, *(PLACES.get(letter, OTHER) for letter in word), EDGE]
        for before, after in zip(path, path[1:]):
            counts[before][after] += 1 + math.log2(times)
    cells = bytearray()
    for row in counts:
        total = sum(row)
        for count in row:
            cell = round(8 * math.log2(count / total * RANDOM_SYMBOLS))
            cells.append(max(-127, min(127, cell)) & 0xFF)
    pathlib.Path(__file__).with_name("bigrams.bin").write_bytes(cells)


if __name__ == "__main__":
    main()
