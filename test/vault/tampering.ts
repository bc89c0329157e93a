import { sealedFrom } from "../../src/authority/signing-key.ts";
import { canonicalJson, type JsonObject } from "../../src/tree/canonical.ts";
import {
  type BundleEntry,
  type Draft,
  decisions,
  newKey,
  WORKSPACE,
  type WriteOptions,
  writeLog,
} from "../cli/written-log.ts";
import { naiveLeaf } from "../log/naive-tree.ts";

/** A manipulation of a bundle, and the fault that a verifier must report. */
export interface Tampering {
  readonly what: string;
  /** The text of the bundle afterwards. */
  readonly text: string;
  readonly fault: string;
  /** The first entry that cannot be trusted; null for a fault of no entry. */
  readonly index: number | null;
}

interface LogParts {
  readonly head: { readonly format: string; readonly checkpoint: string; readonly public_keys: readonly string[] };
  readonly entries: readonly BundleEntry[];
}

interface DecisionParts extends JsonObject {
  readonly format: string;
  readonly body: string;
  readonly leaf_index: number;
  readonly audit_path: readonly string[];
  readonly checkpoint: string;
  readonly public_keys: readonly string[];
}

/** The key that every bundle here is signed with, which verifiers are told to trust. */
export const KEY = newKey();
const OTHER_KEY = newKey();
const SIZE = 13;
/** Entries 0, 1, 2–4, 5, 6–7, then one by one. */
const BATCHES = [1, 1, 3, 1, 2, 1];
const LOG = writeLog(decisions(SIZE), { key: KEY, batches: BATCHES });
const OTHER_LOG = writeLog(decisions(SIZE), { key: OTHER_KEY, batches: BATCHES });
/** The same entries under a name that only ends like the one of their log. */
const MISNAMED_LOG = writeLog(decisions(SIZE), { key: KEY, batches: BATCHES, named: `other/${WORKSPACE}` });
/** The entry that the decision bundle is of. */
const PROVED = 5;

const WHOLE: LogParts = {
  head: { format: "agent-control-plane.log/1", checkpoint: LOG.checkpoint(), public_keys: [KEY.publicPem] },
  entries: LOG.entries,
};
const PROOF: DecisionParts = {
  format: "agent-control-plane.decision/1",
  body: LOG.entries[PROVED]?.body ?? "",
  leaf_index: PROVED,
  audit_path: LOG.auditPath(PROVED),
  checkpoint: LOG.checkpoint(),
  public_keys: [KEY.publicPem],
};

const logText = ({ head, entries }: LogParts): string =>
  [head, ...entries].map((each) => `${JSON.stringify(each)}\n`).join("");
const decisionText = (parts: object): string => `${JSON.stringify(parts)}\n`;

/** An intact log bundle and an intact decision bundle. */
export const UNTOUCHED: readonly string[] = [logText(WHOLE), decisionText(PROOF)];

type Edit = (body: string) => string;

/** An entry with another body, under a leaf hash that fits it. */
const rehashed = (entry: BundleEntry, edit: Edit): BundleEntry => {
  const body = edit(entry.body);
  return { ...entry, body, leaf_hash: naiveLeaf(body).toString("base64") };
};

const members =
  (more: JsonObject): Edit =>
  (body) =>
    canonicalJson({ ...(JSON.parse(body) as JsonObject), ...more });
const allow: Edit = (body) => body.replace('"decision":"block"', '"decision":"allow"');
const renumbered = (entries: readonly BundleEntry[]): BundleEntry[] =>
  entries.map((entry, index) => ({ ...entry, index }));

/** The entries with the one at an index changed. */
const withEntry = (index: number, change: (entry: BundleEntry) => object): BundleEntry[] =>
  LOG.entries.map((entry) => (entry.index === index ? { ...entry, ...change(entry) } : entry));

/** A log that was written and signed with a body gone wrong. */
function written(index: number, edit: Edit, options: WriteOptions = {}): string {
  const distort = (body: string, at: number): string => (at === index ? edit(body) : body);
  const log = writeLog(decisions(SIZE), { key: KEY, ...options, distort });
  return logText({ head: { ...WHOLE.head, checkpoint: log.checkpoint() }, entries: log.entries });
}

const replacedLine = (note: string, line: number, text: string): string => note.split("\n").with(line, text).join("\n");
const otherHash = (hash: string): string => naiveLeaf(hash).toString("base64");

function otherSignature(note: string): string {
  const [head = "", base64 = ""] = note.trimEnd().split(/ (?=[^ ]*$)/);
  const bytes = Buffer.from(base64, "base64");
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  return `${head} ${bytes.toString("base64")}\n`;
}

/** The same in both kinds of bundle: what was done to the checkpoint. */
const CHECKPOINTS: readonly (readonly [what: string, checkpoint: string, fault: string])[] = [
  ["changes the checkpoint's size", replacedLine(LOG.checkpoint(), 1, String(SIZE - 1)), "signature"],
  ["changes the checkpoint's root", replacedLine(LOG.checkpoint(), 2, otherHash("")), "signature"],
  ["changes the checkpoint's origin", replacedLine(LOG.checkpoint(), 0, "log.example/vault/other"), "signature"],
  ["changes the checkpoint's signature", otherSignature(LOG.checkpoint()), "signature"],
  ["leaves the checkpoint's signature out", LOG.checkpoint().split("\u2014")[0] ?? "", "checkpoint"],
  ["puts a line into the checkpoint", replacedLine(LOG.checkpoint(), 2, `${otherHash("")}\nmore`), "signature"],
  ["gives the size a leading zero", replacedLine(LOG.checkpoint(), 1, `0${SIZE}`), "checkpoint"],
];

const LOGS: readonly (readonly [what: string, parts: Partial<LogParts>, fault: string, index: number | null])[] = [
  ["changes a body", { entries: withEntry(6, ({ body }) => ({ body: allow(body) })) }, "leaf_hash", 6],
  [
    "changes a body and its leaf hash",
    { entries: withEntry(9, (entry) => rehashed(entry, allow)) },
    "previous_root",
    9,
  ],
  [
    "changes a body of a batch and its leaf hash, which leaves the batch as suspects",
    { entries: withEntry(3, (entry) => rehashed(entry, allow)) },
    "previous_root",
    2,
  ],
  [
    "changes the last body and its leaf hash",
    { entries: withEntry(12, (entry) => rehashed(entry, allow)) },
    "root",
    12,
  ],
  [
    "changes a leaf hash",
    { entries: withEntry(7, (entry) => ({ leaf_hash: otherHash(entry.leaf_hash) })) },
    "leaf_hash",
    7,
  ],
  [
    "swaps two entries",
    { entries: LOG.entries.with(3, LOG.entries[4] as BundleEntry).with(4, LOG.entries[3] as BundleEntry) },
    "order",
    3,
  ],
  [
    "swaps the bodies of two entries",
    { entries: renumbered(LOG.entries.with(3, LOG.entries[4] as BundleEntry).with(4, LOG.entries[3] as BundleEntry)) },
    "order",
    3,
  ],
  ["removes an entry", { entries: LOG.entries.toSpliced(8, 1) }, "order", 8],
  ["removes an entry and renumbers", { entries: renumbered(LOG.entries.toSpliced(8, 1)) }, "order", 8],
  [
    "removes an entry and has the others say their new places",
    {
      entries: LOG.entries
        .toSpliced(8, 1)
        .map((entry, index) => (index < 8 ? entry : { ...rehashed(entry, members({ seq: index })), index })),
    },
    "previous_root",
    8,
  ],
  ["puts an entry in", { entries: renumbered(LOG.entries.toSpliced(4, 0, LOG.entries[4] as BundleEntry)) }, "order", 5],
  ["cuts off the end", { entries: LOG.entries.slice(0, -2) }, "order", SIZE - 2],
  [
    "appends an entry",
    {
      entries: [...LOG.entries, ...writeLog(decisions(SIZE + 1), { key: KEY, batches: BATCHES }).entries.slice(SIZE)],
    },
    "order",
    SIZE,
  ],
  [
    "moves an entry to another workspace",
    { entries: withEntry(9, (entry) => rehashed(entry, members({ workspace_id: "other" }))) },
    "workspace",
    9,
  ],
  [
    "makes an entry older",
    { entries: withEntry(9, (entry) => rehashed(entry, members({ at: "2025-01-01T00:00:00.000Z" }))) },
    "time",
    9,
  ],
  [
    "gives an entry another's id",
    { entries: withEntry(9, (entry) => rehashed(entry, members({ decision_id: "dec_1" }))) },
    "duplicate_id",
    9,
  ],
  [
    "has an entry sealed on another size",
    { entries: withEntry(9, (entry) => rehashed(entry, members({ previous_size: 8 }))) },
    "previous_root",
    9,
  ],
  [
    "gives an entry a version that is not known",
    { entries: withEntry(9, (entry) => rehashed(entry, members({ v: 3 }))) },
    "version",
    9,
  ],
  ["leaves out a body", { entries: withEntry(9, () => ({ body: null })) }, "malformed", null],
  ["shortens a leaf hash", { entries: withEntry(9, () => ({ leaf_hash: "AAAA" })) }, "malformed", null],
  [
    "is another log, signed with another key",
    {
      head: { ...WHOLE.head, checkpoint: OTHER_LOG.checkpoint(), public_keys: [OTHER_KEY.publicPem] },
      entries: OTHER_LOG.entries,
    },
    "signature",
    null,
  ],
  [
    "is signed under a name that only ends like its own",
    { head: { ...WHOLE.head, checkpoint: MISNAMED_LOG.checkpoint() } },
    "workspace",
    0,
  ],
  ...CHECKPOINTS.map(
    ([what, checkpoint, fault]) => [what, { head: { ...WHOLE.head, checkpoint } }, fault, null] as const,
  ),
];

const path = PROOF.audit_path;
const DECISIONS: readonly (readonly [
  what: string,
  parts: Partial<DecisionParts>,
  fault: string,
  index: number | null,
])[] = [
  ["changes the body", { body: members({ decision: "maybe" })(PROOF.body) }, "proof", null],
  ["takes another entry's body", { body: LOG.entries[4]?.body ?? "" }, "proof", null],
  ["changes a sibling of the proof", { audit_path: path.with(1, otherHash(path[1] ?? "")) }, "proof", null],
  ["swaps two siblings", { audit_path: path.with(0, path[1] ?? "").with(1, path[0] ?? "") }, "proof", null],
  ["shortens the proof", { audit_path: path.slice(0, -1) }, "proof", null],
  ["lengthens the proof", { audit_path: [...path, path[0] ?? ""] }, "proof", null],
  ["leaves the proof empty", { audit_path: [] }, "proof", null],
  ["changes the index", { leaf_index: PROVED + 1 }, "proof", null],
  ["takes an index beyond the log", { leaf_index: SIZE }, "proof", null],
  ["has the proof of a smaller log", { audit_path: LOG.auditPath(PROVED, SIZE - 5) }, "proof", null],
  ["has a sibling that is no hash", { audit_path: path.with(0, "AAAA") }, "malformed", null],
  [
    "is of another log, signed with another key",
    { checkpoint: OTHER_LOG.checkpoint(), public_keys: [OTHER_KEY.publicPem] },
    "signature",
    null,
  ],
  [
    "is of a log that is signed under a name which only ends like its own",
    { checkpoint: MISNAMED_LOG.checkpoint() },
    "workspace",
    PROVED,
  ],
  ...CHECKPOINTS.map(([what, checkpoint, fault]) => [what, { checkpoint }, fault, null] as const),
];

/** Bodies that hash to what was signed, and are no canonical JSON. */
const UNCANONICAL: readonly (readonly [what: string, edit: Edit])[] = [
  ["a blank", (body) => body.replace(":", ": ")],
  ["members out of order", (body) => body.replace(/\{(.*?),/, "{").replace(/\}$/, `,${/\{(.*?),/.exec(body)?.[1]}}`)],
  ["a member that comes twice", (body) => body.replace("{", '{"action":1,')],
  ["a number spelt otherwise", (body) => body.replace('"after":50.2', '"after":50.20')],
  ["a number that no double holds", (body) => body.replace('"after":50.2', '"after":9007199254740993')],
  ["an escape that is not needed", (body) => body.replace("pay", "\\u0070ay")],
  ["half of a surrogate pair", (body) => body.replace("pay", "\\ud800")],
  ["no JSON", (body) => body.slice(0, -1)],
  ["a list", (body) => `[${body}]`],
];

const sealedKey = ({ privateKey }: typeof KEY): JsonObject => sealedFrom(privateKey);

/** Logs as a service writes them, from the workspace's creation on, which seal or retire signing keys. */
function keyedLog(...drafts: readonly Draft[]): string {
  const { entries, checkpoint } = writeLog([...drafts, ...decisions(3)], { key: KEY });
  return logText({ head: { ...WHOLE.head, checkpoint: checkpoint() }, entries });
}

const CREATED = { type: "workspace_created", signing_key: sealedKey(KEY) };
const CREATED_BY_OTHER = { type: "workspace_created", signing_key: sealedKey(OTHER_KEY) };
const ADDED = { type: "signing_key_added", signing_key: sealedKey(KEY) };
const RETIRED = { type: "signing_key_retired", key_id: sealedKey(KEY).key_id } as Draft;

/** Logs whose signing key is sealed: in the first entry, or later; another's retirement does not matter. */
export const KEYED: readonly string[] = [
  keyedLog(CREATED),
  keyedLog(CREATED_BY_OTHER, ADDED),
  keyedLog(CREATED, { ...RETIRED, key_id: sealedKey(OTHER_KEY).key_id ?? null }),
];

/** Logs that are signed with a key which they do not seal, or have retired. */
const UNSEALED: readonly (readonly [what: string, text: string])[] = [
  ["does not seal its signing key", keyedLog(CREATED_BY_OTHER)],
  ["seals no key at all", keyedLog({ type: "workspace_created" })],
  ["retired its signing key", keyedLog(CREATED, RETIRED)],
  ["retired its signing key and added it again", keyedLog(CREATED, RETIRED, ADDED)],
  ["seals its signing key in an entry of another type", keyedLog(CREATED_BY_OTHER, { ...ADDED, type: "other" })],
];

const [FINANCE, LEGAL] = ["finance", "legal"];
const [ADA, BEN, CLEO, DAN] = ["ada", "ben", "cleo", "dan"].map((name) => `oidc:https://idp.example|${name}`) as [
  string,
  string,
  string,
  string,
];
const ESCALATION = { escalation_id: "esc_1", agent_id: "agt_1" };

const keyOf = (key_id: string, owner?: string, by = "key_root"): Draft => ({
  type: "key_created",
  key: { key_id, ...(owner === undefined ? {} : { owner }) },
  by,
});
const groupOf = (name: string, more: JsonObject): Draft => ({
  type: "approver_group_changed",
  approver_group: { name, members: [], deputies: [], oidc_groups: [], ...more },
});
const demandOf = (groups: readonly string[], at_least: unknown): JsonObject =>
  ({ mandate_id: "mnd_1", rule: "rules[0]", groups, at_least }) as JsonObject;
const askedBy = (key_id: string, approvals_needed: unknown, more: JsonObject = {}): Draft =>
  ({
    ...ESCALATION,
    type: "decision",
    decision: "escalate",
    key_id,
    ...(approvals_needed === undefined ? {} : { approvals_needed }),
    ...more,
  }) as Draft;
/** An approval by an entry of its own; a party of null for a key that counts as itself. */
const given = (by: string, groups: readonly string[], party: string | null = by): Draft =>
  ({ ...ESCALATION, type: "escalation_approval_given", by, groups, ...(party === null ? {} : { party }) }) as Draft;
const takenBack = (by: string): Draft => ({ ...ESCALATION, type: "escalation_approval_withdrawn", by });
/** An approval as a resolution counts it, that of an entry before if it names one. */
const counted = (by: string, groups: readonly string[], more: JsonObject = {}): JsonObject =>
  ({ by, groups, party: by, ...more }) as JsonObject;
const resolved = (by: string, more: JsonObject): Draft => ({ ...ESCALATION, type: "escalation_resolved", by, ...more });
const approved = (by: string, approvals: readonly JsonObject[]): Draft =>
  resolved(by, { resolution: "approved", approvals } as JsonObject);
const editedBy = (by: string): Draft =>
  resolved(by, { escalation_id: "esc_0", resolution: "rejected", edit: { replaced_by: "esc_1" } });

/** Keys and groups before an action waits for two of finance and one of legal: entries 0 to 6; the ask is entry 7. */
const PEOPLE: readonly Draft[] = [
  keyOf("key_agent", undefined, ADA),
  keyOf("key_ben", BEN),
  keyOf("key_ben_2", BEN),
  keyOf("key_label", "Night shift"),
  keyOf("key_plain"),
  groupOf(FINANCE, { members: [ADA, BEN, CLEO], deputies: [DAN] }),
  groupOf(LEGAL, { members: [BEN, "Night shift"] }),
];
const ASK = askedBy("key_other", [demandOf([FINANCE], 2), demandOf([LEGAL], 1)]);
const ASKED = [...PEOPLE, ASK];
const BEN_GIVEN = given(BEN, [FINANCE, LEGAL]);
const BEN_COUNTED = counted(BEN, [FINANCE, LEGAL], { seq: 8 });
const USED: Draft = { type: "decision", decision: "allow", used_escalation_id: "esc_1" };
const TWO = approved(CLEO, [BEN_COUNTED, counted(CLEO, [FINANCE])]);

function approvalsLog(drafts: readonly Draft[]): string {
  // A log has ids of its own, and as many entries as the other bundles.
  const more = decisions(Math.max(0, SIZE - drafts.length));
  const { entries, checkpoint } = writeLog([...drafts, ...more], { key: KEY, batches: [1] });
  return logText({ head: { ...WHOLE.head, checkpoint: checkpoint() }, entries });
}

const APPROVALS: readonly (readonly [what: string, drafts: readonly Draft[]])[] = [
  ["two people, one of them in both groups", [...ASKED, BEN_GIVEN, TWO, USED]],
  [
    "a key that counts as its owner, whose label compares in a form of its own",
    [
      ...ASKED,
      given("key_label", [LEGAL], "owner night shift"),
      given("key_ben", [FINANCE], BEN),
      approved(CLEO, [
        counted("key_label", [LEGAL], { seq: 8, party: "owner night shift" }),
        counted("key_ben", [FINANCE], { seq: 9, party: BEN }),
        counted(CLEO, [FINANCE]),
      ]),
    ],
  ],
  [
    "a deputy after a reminder",
    [
      ...ASKED,
      { ...ESCALATION, type: "escalation_reminded", groups: [FINANCE] },
      given(BEN, [FINANCE, LEGAL]),
      approved(DAN, [counted(BEN, [FINANCE, LEGAL], { seq: 9 }), counted(DAN, [FINANCE])]),
    ],
  ],
  [
    "an approval that was taken back and given again",
    [
      ...ASKED,
      BEN_GIVEN,
      takenBack(BEN),
      BEN_GIVEN,
      approved(CLEO, [counted(BEN, [FINANCE, LEGAL], { seq: 10 }), counted(CLEO, [FINANCE])]),
    ],
  ],
  [
    "a member by a group of the identity provider, which no entry seals",
    [
      groupOf(FINANCE, { oidc_groups: [{}] }),
      askedBy("key_1", [demandOf([FINANCE], 1)]),
      approved(DAN, [counted(DAN, [FINANCE])]),
      USED,
    ],
  ],
  [
    "a key without an owner where any operator is enough",
    [keyOf("key_plain"), askedBy("key_1", [demandOf([], 1)]), approved("key_plain", [{ by: "key_plain", groups: [] }])],
  ],
  [
    "one operator where no rule names approvers",
    [askedBy("key_1", undefined), resolved("key_1", { resolution: "approved" }), USED],
  ],
];

/** Logs in which approvals meet the demands before them. */
export const APPROVED: readonly (readonly [what: string, text: string])[] = APPROVALS.map(
  ([what, drafts]) => [what, approvalsLog(drafts)] as const,
);

/** Logs that are signed, and in which an approval should not have been; the fault is that of their last own entry. */
const UNAPPROVED: readonly (readonly [what: string, drafts: readonly Draft[]])[] = [
  ["approves with one of two people", [...ASKED, approved(BEN, [counted(BEN, [FINANCE, LEGAL])])]],
  [
    "approves with nobody of a group",
    [...ASKED, given(ADA, [FINANCE]), approved(CLEO, [counted(ADA, [FINANCE], { seq: 8 }), counted(CLEO, [FINANCE])])],
  ],
  ["approves without saying who", [...ASKED, resolved(BEN, { resolution: "approved" })]],
  [
    "approves a demand that a later ask brought with too few",
    [...ASKED, BEN_GIVEN, askedBy("key_b", [demandOf([FINANCE], 3)]), TWO],
  ],
  ["counts the asker", [...PEOPLE, { ...ASK, key_id: CLEO }, BEN_GIVEN, TWO]],
  ["counts who asked with another key of theirs", [...PEOPLE, { ...ASK, key_id: "key_ben" }, BEN_GIVEN, TWO]],
  [
    "counts who made the asker's key",
    [...PEOPLE, { ...ASK, key_id: "key_agent" }, BEN_GIVEN, approved(ADA, [BEN_COUNTED, counted(ADA, [FINANCE])])],
  ],
  ["counts who asked after approving", [...ASKED, BEN_GIVEN, askedBy(BEN, undefined), TWO]],
  [
    "counts the editor",
    [
      ...PEOPLE,
      { ...ASK, escalation_id: "esc_0" },
      ASK,
      editedBy(CLEO),
      BEN_GIVEN,
      approved(CLEO, [counted(BEN, [FINANCE, LEGAL], { seq: 10 }), counted(CLEO, [FINANCE])]),
    ],
  ],
  [
    "counts who asked for the action before its edit",
    [
      ...PEOPLE,
      { ...ASK, escalation_id: "esc_0", key_id: CLEO },
      ASK,
      editedBy("key_x"),
      BEN_GIVEN,
      approved(CLEO, [counted(BEN, [FINANCE, LEGAL], { seq: 10 }), counted(CLEO, [FINANCE])]),
    ],
  ],
  ["counts one person twice", [...ASKED, BEN_GIVEN, approved(BEN, [BEN_COUNTED, counted(BEN, [FINANCE, LEGAL])])]],
  [
    "counts one person by two keys",
    [
      ...ASKED,
      given("key_ben", [FINANCE, LEGAL], BEN),
      approved("key_ben_2", [
        counted("key_ben", [FINANCE, LEGAL], { seq: 8, party: BEN }),
        counted("key_ben_2", [FINANCE], { party: BEN }),
      ]),
    ],
  ],
  ["counts a key as somebody else", [...ASKED, given("key_ben", [FINANCE], ADA)]],
  ["counts a key with an owner as itself", [...ASKED, given("key_ben", [], null)]],
  [
    "counts a key without an owner for two",
    [keyOf("key_plain"), askedBy("key_1", [demandOf([], 2)]), approved("key_plain", [{ by: "key_plain", groups: [] }])],
  ],
  ["counts a stranger in a group", [...ASKED, given(DAN, [FINANCE])]],
  ["counts a deputy before the reminder", [...ASKED, BEN_GIVEN, approved(DAN, [BEN_COUNTED, counted(DAN, [FINANCE])])]],
  [
    "counts somebody in a group that was deleted",
    [...ASKED, { type: "approver_group_deleted", name: FINANCE }, given(BEN, [FINANCE])],
  ],
  [
    "counts an approval that no entry gives",
    [...ASKED, approved(CLEO, [counted(BEN, [FINANCE, LEGAL]), counted(CLEO, [FINANCE])])],
  ],
  [
    "counts an approval of another entry",
    [...ASKED, BEN_GIVEN, approved(CLEO, [counted(ADA, [FINANCE, LEGAL], { seq: 8 }), counted(CLEO, [FINANCE])])],
  ],
  [
    "counts an approval for more groups than it was given for",
    [
      ...ASKED,
      given(ADA, [FINANCE]),
      approved(CLEO, [counted(ADA, [FINANCE, LEGAL], { seq: 8 }), counted(CLEO, [FINANCE])]),
    ],
  ],
  ["counts an approval that was taken back", [...ASKED, BEN_GIVEN, takenBack(BEN), TWO]],
  ["demands none", [askedBy("key_1", [demandOf([FINANCE], 0)])]],
  ["demands half a person", [askedBy("key_1", [demandOf([FINANCE], 0.5)])]],
  ["hides its demands", [askedBy("key_1", {})]],
  ["uses an approval that nobody gave", [...ASKED, BEN_GIVEN, USED]],
  ["uses an approval of an escalation that nobody asked for", [USED]],
  ["uses an approval that was rejected", [...ASKED, resolved(BEN, { resolution: "rejected" }), USED]],
];

/** The bundles that every verifier has to refuse when it trusts `KEY` alone. */
export const TAMPERINGS: readonly Tampering[] = [
  ...LOGS.map(([what, parts, fault, index]) => ({
    what: `a log that ${what}`,
    text: logText({ ...WHOLE, ...parts }),
    fault,
    index,
  })),
  ...DECISIONS.map(([what, parts, fault, index]) => ({
    what: `a decision bundle that ${what}`,
    text: decisionText({ ...PROOF, ...parts }),
    fault,
    index,
  })),
  ...UNCANONICAL.map(([what, edit]) => ({
    what: `a log with ${what} in a body`,
    text: written(9, edit),
    fault: "canonical",
    index: 9,
  })),
  ...UNSEALED.map(([what, text]) => ({ what: `a log that ${what}`, text, fault: "signature", index: null })),
  ...UNAPPROVED.map(([what, drafts]) => ({
    what: `a log that ${what}`,
    text: approvalsLog(drafts),
    fault: "approval",
    index: drafts.length - 1,
  })),
];
