"""Verifies the table of `agentctl vault report` with nothing but Python's standard library.

Usage: verify_report.py folder

Written from RFC 4180 (CSV), RFC 9162 (Merkle trees) and c2sp.org/tlog-checkpoint alone. Prints `verified` and the number of rows, or
`refused` and the index of the first row whose entry is not in the log. The signature of the checkpoint is left to `verify_bundle.py`.
"""

import base64
import csv
import hashlib
import pathlib
import sys


def root_of(leaf, index, size, path):
    """RFC 9162, section 2.1.3.2."""
    fn, sn, found = index, size - 1, leaf
    for sibling in path:
        if sn == 0:
            return None
        if fn % 2 == 1 or fn == sn:
            found = hashlib.sha256(b"\x01" + sibling + found).digest()
            while fn % 2 == 0 and fn != 0:
                fn, sn = fn >> 1, sn >> 1
        else:
            found = hashlib.sha256(b"\x01" + found + sibling).digest()
        fn, sn = fn >> 1, sn >> 1
    return found if sn == 0 else None


folder = pathlib.Path(sys.argv[1])
_, size, root = (folder / "checkpoint.txt").read_text().split("\n")[:3]
csv.field_size_limit(2**30)
with open(folder / "decisions.csv", newline="") as table:
    rows = list(csv.DictReader(table))
for row in rows:
    leaf = hashlib.sha256(b"\x00" + row["entry"].encode()).digest()
    path = [bytes.fromhex(word) for word in row["audit_path"].split()]
    if leaf.hex() != row["leaf_hash"] or root_of(leaf, int(row["index"]), int(size), path) != base64.b64decode(root):
        print("refused", row["index"])
        sys.exit(1)
print("verified", len(rows))
