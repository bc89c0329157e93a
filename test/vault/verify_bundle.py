"""Verifies bundles of an Agent Control Plane with nothing but Python's standard library.

Usage: verify_bundle.py [--public-key key.pem] bundle...

A second verifier, written from the specifications alone: RFC 9162 (Merkle trees), RFC 8785 (canonical JSON),
c2sp.org/signed-note and c2sp.org/tlog-checkpoint, FIPS 186-5 (ECDSA over P-256). For each bundle it prints one line:
`verified` and the number of entries, or `refused`, the fault's word and the index of the entry, `-` for none.
"""

import base64
import hashlib
import json
import re
import sys

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
SPKI_PREFIX = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200" "04")
LOG, DECISION = "agent-control-plane.log/1", "agent-control-plane.decision/1"


class Refused(Exception):
    def __init__(self, fault, index=None):
        super().__init__(fault)
        self.fault, self.index = fault, index


def need(condition, fault, index=None):
    if not condition:
        raise Refused(fault, index)


# ECDSA


def add(p, q):
    if p is None:
        return q
    if q is None:
        return p
    if p[0] == q[0] and (p[1] + q[1]) % P == 0:
        return None
    if p == q:
        slope = (3 * p[0] * p[0] - 3) * pow(2 * p[1], -1, P)
    else:
        slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, P)
    x = (slope * slope - p[0] - q[0]) % P
    return x, (slope * (p[0] - x) - p[1]) % P


def times(k, point):
    result = None
    while k:
        if k & 1:
            result = add(result, point)
        point = add(point, point)
        k >>= 1
    return result


def der_integer(data):
    need(len(data) > 2 and data[0] == 2 and data[1] < 0x80, "signature")
    body = data[2 : 2 + data[1]]
    need(len(body) == data[1] > 0 and body[0] < 0x80, "signature")
    need(len(body) == 1 or body[0] or body[1] >= 0x80, "signature")
    return int.from_bytes(body, "big"), data[2 + data[1] :]


def der_signature(data):
    need(len(data) > 2 and data[0] == 0x30 and data[1] == len(data) - 2 < 0x80, "signature")
    r, rest = der_integer(data[2:])
    s, rest = der_integer(rest)
    need(not rest, "signature")
    return r, s


class Key:
    def __init__(self, pem):
        body = re.fullmatch(r"\s*-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*", pem)
        need(body, "malformed")
        der = base64.b64decode("".join(body.group(1).split()))
        need(der.startswith(SPKI_PREFIX) and len(der) == len(SPKI_PREFIX) + 64, "malformed")
        point = der[len(SPKI_PREFIX) :]
        x, y = int.from_bytes(point[:32], "big"), int.from_bytes(point[32:], "big")
        need(x < P and y < P and (y * y - x * x * x + 3 * x - B) % P == 0, "malformed")
        self.point, self.note_id = (x, y), hashlib.sha256(der).digest()[:4]
        # RFC 7638.
        names = [base64.urlsafe_b64encode(half).decode().rstrip("=") for half in (point[:32], point[32:])]
        jwk = '{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}' % tuple(names)
        self.thumbprint = base64.urlsafe_b64encode(hashlib.sha256(jwk.encode()).digest()).decode().rstrip("=")

    def signed(self, message, signature):
        try:
            r, s = der_signature(signature)
        except Refused:
            return False
        if not (0 < r < N and 0 < s < N):
            return False
        e, w = int.from_bytes(hashlib.sha256(message).digest(), "big"), pow(s, -1, N)
        found = add(times(e * w % N, G), times(r * w % N, self.point))
        return found is not None and found[0] % N == r


# Canonical JSON


def number_text(value):
    """ECMAScript's Number::toString."""
    need(value == value and abs(value) != float("inf"), "canonical")
    if value == 0:
        return "0"
    sign, value = ("-", -value) if value < 0 else ("", value)
    mantissa, exponent = ("%r" % value).partition("e")[::2]
    whole, fraction = mantissa.partition(".")[::2]
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0)
    if whole == "0":
        point = int(exponent or 0) - (len(fraction) - len(fraction.lstrip("0")))
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return sign + mantissa + "e" + ("+" if point > 0 else "-") + str(abs(point - 1))


def json_text(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(json_text(name) + ":" + json_text(value[name]) for name in names) + "}"


def no_constant(_):
    raise ValueError


def canonical(text, index):
    try:
        value = json.loads(text, parse_int=float, parse_float=float, parse_constant=no_constant)
        written = json_text(value)
        written.encode("utf-8")
    except (ValueError, RecursionError):
        raise Refused("canonical", index)
    need(isinstance(value, dict) and written == text, "canonical", index)
    need("v" not in value or value["v"] == 2.0, "version", index)
    return value


# Merkle trees


def sha256(data):
    return hashlib.sha256(data).digest()


def leaf_of(text):
    return sha256(b"\0" + text.encode("utf-8", "surrogatepass"))


def node_of(left, right):
    return sha256(b"\1" + left + right)


class Tree:
    def __init__(self):
        self.size, self.stack = 0, []

    def add(self, leaf):
        size, self.size = self.size, self.size + 1
        while size & 1:
            leaf, size = node_of(self.stack.pop(), leaf), size >> 1
        self.stack.append(leaf)

    def root(self):
        if not self.stack:
            return sha256(b"")
        root = self.stack[-1]
        for left in reversed(self.stack[:-1]):
            root = node_of(left, root)
        return root


def root_from(leaf, index, size, path):
    """RFC 9162, 2.1.3.2; None when the path does not fit."""
    if index >= size:
        return None
    fn, sn, root = index, size - 1, leaf
    for sibling in path:
        if sn == 0:
            return None
        if fn & 1 or fn == sn:
            root = node_of(sibling, root)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            root = node_of(root, sibling)
        fn, sn = fn >> 1, sn >> 1
    return root if sn == 0 else None


# Checkpoints


def decode(text, length, fault, index=None):
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        raise Refused(fault, index)
    need(base64.b64encode(data).decode() == text and length in (None, len(data)), fault, index)
    return data


def checkpoint(note, keys):
    """Gives origin, size and root of a note, and the thumbprint of the trusted key that signed it."""
    need(isinstance(note, str) and note.endswith("\n") and "\n\n" in note, "checkpoint")
    need(not re.search(r"[\0-\x09\x0b-\x1f]", note), "checkpoint")
    text, _, signatures = note[:-1].rpartition("\n\n")
    text += "\n"
    lines = text[:-1].split("\n")
    need(len(lines) >= 3 and all(lines) and re.fullmatch(r"0|[1-9][0-9]*", lines[1]), "checkpoint")
    root = decode(lines[2], 32, "checkpoint")
    signer = None
    for line in signatures.split("\n"):
        parts = re.fullmatch(r"\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})", line)
        need(parts, "checkpoint")
        data = decode(parts.group(2), None, "checkpoint")
        need(len(data) > 4, "checkpoint")
        known = [key for key in keys if parts.group(1) == lines[0] and key.note_id == data[:4]]
        if known:
            signer = next((key.thumbprint for key in known if key.signed(text.encode(), data[4:])), None)
            need(signer, "signature")
    need(signer, "signature")
    return lines[0], int(lines[1]), root, signer


# Bundles


def of_log(body, origin, index):
    need(origin.endswith(f"/vault/{body.get('workspace_id')}"), "workspace", index)


def verify_decision(head, keys):
    origin, size, root, _ = checkpoint(head.get("checkpoint"), keys)
    text, index, path = head.get("body"), head.get("leaf_index"), head.get("audit_path")
    need(isinstance(text, str) and type(index) is int and index >= 0 and isinstance(path, list), "malformed")
    path = [decode(sibling, 32, "malformed") for sibling in path]
    need(root_from(leaf_of(text), index, size, path) == root, "proof")
    body = canonical(text, index)
    need(body.get("seq") == index, "order", index)
    need(body.get("type") == "decision", "malformed")
    of_log(body, origin, index)
    return 1


def ids_of(body):
    if body.get("type") != "decision":
        return []
    # Several decisions may ask for one approval; the first says when it expires.
    asked = ("escalation_id",) if "escalation_expires_at" in body else ()
    names = ("decision_id", *asked, "used_escalation_id")
    return [(name, body[name]) for name in names if name in body]


def texts(value):
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def of(value, *names):
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class Approvals:
    """Follows the demands that decisions seal, and who answered them; an answer has to meet every demand before it."""

    def __init__(self):
        self.pending, self.approved, self.groups, self.keys = {}, set(), {}, {}

    def of(self, escalation):
        return self.pending.setdefault(escalation, {"demands": [], "askers": set(), "given": {}, "reminded": set()})

    def names(self, approval):
        return {approval.get("by"), approval.get("party"), of(self.keys.get(approval.get("by")), "owner")} - {None}

    def line(self, name):
        found = set()
        while name is not None and name not in found:
            key = self.keys.get(name) or {}
            found |= {name, key.get("owner")} - {None}
            name = key.get("by")
        return found

    def admitted(self, pending, approval, index):
        by, party = approval.get("by"), approval.get("party")
        person = isinstance(by, str) and by.startswith("oidc:")
        owner = by if person else of(self.keys.get(by), "owner")
        if person or by in self.keys:
            named = owner is not None and owner.startswith("oidc:")
            need(party == owner if named else (party is None) == (owner is None), "approval", index)
        for name in texts(approval.get("groups")):
            need(party is not None and name in self.groups, "approval", index)
            group = self.groups[name]
            known = texts(group.get("members")) + (texts(group.get("deputies")) if name in pending["reminded"] else [])
            named = party.startswith("oidc:")
            inside = party in known if named else any(not each.startswith("oidc:") for each in known)
            need(group.get("oidc_groups") or inside, "approval", index)

    def check(self, body, index):
        kind, escalation = body.get("type"), body.get("escalation_id")
        if kind == "decision":
            used = body.get("used_escalation_id")
            need(used is None or used in self.approved, "approval", index)
            self.approved.discard(used)
            if body.get("decision") == "escalate" and isinstance(escalation, str):
                pending, demands = self.of(escalation), body.get("approvals_needed", [])
                need(isinstance(demands, list), "approval", index)
                for least in (of(each, "at_least") for each in demands):
                    need(isinstance(least, float) and least >= 1 and least.is_integer(), "approval", index)
                pending["demands"] += demands
                pending["askers"].add(body.get("key_id", ""))
        elif kind in ("key_created", "authority_created"):
            made = body.get("key" if kind == "key_created" else "authority") or {}
            name = made.get("key_id" if kind == "key_created" else "id")
            self.keys[name] = {"owner": made.get("owner") if kind == "key_created" else None, "by": body.get("by")}
        elif kind == "approver_group_changed":
            self.groups[of(body, "approver_group", "name")] = body.get("approver_group")
        elif kind == "approver_group_deleted":
            self.groups.pop(body.get("name"), None)
        elif kind == "escalation_reminded":
            self.of(escalation)["reminded"].update(texts(body.get("groups")))
        elif kind in ("escalation_approval_given", "escalation_approval_withdrawn"):
            pending, own = self.of(escalation), self.names(body)
            if kind == "escalation_approval_given":
                self.admitted(pending, body, index)
            others = {at: each for at, each in pending["given"].items() if not self.names(each) & own}
            pending["given"] = {**others, **({index: body} if kind == "escalation_approval_given" else {})}
        elif kind == "escalation_resolved":
            pending = self.of(escalation)
            del self.pending[escalation]
            replaced = of(body, "edit", "replaced_by")
            if isinstance(replaced, str):
                self.of(replaced)["askers"] |= pending["askers"] | {body.get("by", "")}
            if body.get("resolution") == "approved":
                self.approved.add(escalation)
                if pending["demands"]:
                    self.resolved(pending, body, index)

    def resolved(self, pending, body, index):
        approvals = body.get("approvals") if isinstance(body.get("approvals"), list) else []
        for each in approvals:
            need(isinstance(each, dict), "approval", index)
            if "seq" not in each and each.get("by") == body.get("by"):
                self.admitted(pending, each, index)
            else:
                given = pending["given"].get(each.get("seq"), {})
                need(all(given.get(name) == each.get(name) for name in ("by", "party", "groups")), "approval", index)
        for demand in pending["demands"]:
            groups, least, count = set(texts(demand.get("groups"))), demand["at_least"], 0
            for each in approvals:
                inside = not groups or groups & set(texts(each.get("groups")))
                count += bool(inside and (each.get("party") is not None or least <= 1))
            need(count >= least, "approval", index)
        for place, each in enumerate(approvals):
            own = self.names(each)
            need(not any(own & self.line(asker) for asker in pending["askers"]), "approval", index)
            others = approvals[:place] + approvals[place + 1 :]
            need(not any(own & (self.names(other) | self.line(other.get("by"))) for other in others), "approval", index)


def seal_keys(keys, body, index):
    """Notes the keys that an entry seals, and whether they were retired; None stands for the log's beginning."""
    kind, key = body.get("type"), body.get("signing_key")
    if index == 0 and kind == "workspace_created":
        keys[None] = False
    if kind in ("workspace_created", "signing_key_added") and isinstance(key, dict):
        keys.setdefault(key.get("key_id"), False)
    if kind == "signing_key_retired" and body.get("key_id") in keys:
        keys[body["key_id"]] = True


def verify_log(head, lines, keys):
    origin, size, root, signer = checkpoint(head.get("checkpoint"), keys)
    tree, before, sealed_on, vouched, claimed, sealed_keys = Tree(), "", None, 0, set(), {}
    approvals = Approvals()
    for line in lines:
        entry, index = json.loads(line), tree.size
        need(isinstance(entry, dict) and isinstance(entry.get("body"), str), "malformed")
        need(type(entry.get("index")) is int, "malformed")
        leaf_hash = decode(entry.get("leaf_hash"), 32, "malformed")
        need(entry["index"] == index, "order", index)
        leaf = leaf_of(entry["body"])
        need(leaf == leaf_hash, "leaf_hash", index)
        body = canonical(entry["body"], index)
        need(body.get("seq") == index, "order", index)
        of_log(body, origin, index)
        need(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(body.get("at"))), "time", index)
        need(body["at"] >= before, "time", index)
        before, sealed = body["at"], (body.get("previous_size"), body.get("previous_root"))
        if sealed != sealed_on:
            need(sealed[0] == index and isinstance(sealed[1], str), "previous_root", index)
            need(base64.b64encode(tree.root()).decode() == sealed[1], "previous_root", min(vouched, max(index - 1, 0)))
            sealed_on, vouched = sealed, index
        for each in ids_of(body):
            need(each not in claimed, "duplicate_id", index)
            claimed.add(each)
        tree.add(leaf)
        seal_keys(sealed_keys, body, index)
        approvals.check(body, index)
    need(tree.size >= size, "order", tree.size)
    need(tree.size <= size, "order", size)
    need(tree.root() == root, "root", min(vouched, max(size - 1, 0)))
    # A log that a service wrote begins with its workspace, and seals the keys that sign it.
    if None in sealed_keys:
        need(signer in sealed_keys and not sealed_keys[signer], "signature")
    return size


def verify(path, pinned):
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            head = json.loads(file.readline())
            keys = pinned or [Key(pem) for pem in head["public_keys"]]
            if head["format"] == DECISION:
                return verify_decision(head, keys)
            need(head["format"] == LOG, "malformed")
            return verify_log(head, (line.rstrip("\n") for line in file), keys)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused("malformed")


def main(arguments):
    pinned = []
    while arguments[:1] == ["--public-key"]:
        with open(arguments[1], encoding="ascii") as file:
            pinned.append(Key(file.read()))
        arguments = arguments[2:]
    refused = False
    for path in arguments:
        try:
            print("verified", verify(path, pinned))
        except Refused as reason:
            refused = True
            print("refused", reason.fault, "-" if reason.index is None else reason.index)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
