import type { JsonObject } from "@bufbuild/protobuf";
import type { DecisionBody, DecisionReceipt, SealedReason } from "../../log/receipts.ts";
import type { CompiledMandate, CompiledRule } from "../../policy/types.ts";
import { listDecisionReceipts } from "../../registry/decisions.ts";
import type { Page, PageRequest } from "../../registry/page.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import { stored } from "../../store/database.ts";
import { readMandateVersions } from "../../store/sql/read-mandates.ts";
import type { ReadOnlyDatabase } from "../../store/transaction.ts";
import { canonicalJson } from "../../tree/canonical.ts";
import { Pace } from "../pace.ts";
import { counted, evidenceOf, type Findings, quoted, sentence } from "./answer.ts";
import { ruleText } from "./rule-text.ts";

/** Maximum number of decisions that are read, newest first. */
const MAX_DECISIONS = 50_000;
/** Number of decisions that are read at a time. */
const PAGE = 200;
/** Maximum number of rules that the text names; the evidence has more. */
const MAX_SAID = 5;
const DAY_MS = 86_400_000;

/** Scope of the search for rules that fired. */
interface NeverFireQuery {
  readonly reads: ReadOnlyDatabase;
  readonly state: WorkspaceState;
  readonly nowMs: number;
  readonly days: number;
  readonly signal: AbortSignal;
}

/** The rules of mandate versions that fired: `*` where a receipt does not say which. */
type FiredRules = Map<string, Map<number, Set<string>>>;

/** Answers which rules in force, observing ones included, did not fire in any decision of the last days. */
export async function neverFireAnswer(query: NeverFireQuery): Promise<Findings> {
  const { state, days } = query;
  const mandates = [...state.policies.mandates.values()];
  const { fired, read, isAll } = await readFired(query);
  const hasFired = await firedInForce(query, fired);
  const silent: { readonly mandate: CompiledMandate; readonly rule: CompiledRule; readonly sinceMs: number }[] = [];
  let total = 0;
  const pace = new Pace();
  for (const { compiled: mandate, createdAtMs } of mandates.sort((a, b) => (a.compiled.id < b.compiled.id ? -1 : 1))) {
    await pace.turn();
    for (const rule of mandate.rules) {
      total++;
      if (!hasFired(mandate.id, rule.path)) silent.push({ mandate, rule, sinceMs: createdAtMs });
    }
  }
  const scope = isAll ? `the ${counted(read, "decision")}` : `the newest ${read} of the decisions`;
  const more = silent.length - MAX_SAID;
  const names = silent.slice(0, MAX_SAID).map(({ mandate, rule }) => `${rule.path} of ${quoted(mandate.name)}`);
  return {
    sentences: [
      `Of ${counted(total, "rule")} in force, ${silent.length} fired in none of ${scope} of the last ${counted(days, "day")}.`,
      ...(names.length === 0 ? [] : [`They are ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}.`]),
      ...(isAll ? [] : [`No more than ${MAX_DECISIONS} are read.`]),
    ],
    evidence: silent.map(({ mandate, rule, sinceMs }) => {
      const text = `${ruleText(mandate, rule)}; the mandate exists since ${new Date(sinceMs).toISOString()}`;
      return evidenceOf(mandate, rule.path, sentence(text));
    }),
  };
}

async function readFired({ reads, state, nowMs, days, signal }: NeverFireQuery) {
  const fired: FiredRules = new Map();
  const pace = new Pace();
  let read = 0;
  const sinceMs = nowMs - days * DAY_MS;
  let after: number | undefined = state.seq;
  while (after !== undefined && read < MAX_DECISIONS) {
    signal.throwIfAborted();
    const page: PageRequest = { size: PAGE, after };
    const { items, next }: Page<DecisionReceipt> = await stored(
      reads.snapshot((reader) => listDecisionReceipts(reader, state.workspaceId, { sinceMs }, page)),
    );
    for (const { body } of items) noteFired(fired, body);
    read += items.length;
    after = next;
    await pace.turn();
  }
  return { fired, read, isAll: after === undefined };
}

function noteFired(fired: FiredRules, { mandates, observed, reasons }: DecisionBody): void {
  const byMandate = Map.groupBy(reasons, ({ mandate_id }) => mandate_id);
  for (const { mandate_id, version } of mandates) {
    noteRules(fired, mandate_id, version, byMandate.get(mandate_id) ?? []);
  }
  for (const each of observed) noteRules(fired, each.mandate_id, each.version, each.reasons);
}

function noteRules(fired: FiredRules, mandateId: string, version: number, reasons: readonly SealedReason[]): void {
  const versions = fired.get(mandateId) ?? new Map<number, Set<string>>();
  const rules = versions.get(version) ?? new Set<string>();
  fired.set(mandateId, versions.set(version, rules));
  if (reasons.length === 0) rules.add("*");
  for (const { rule = "*" } of reasons) rules.add(/^rules\[\d+\]/.exec(rule)?.[0] ?? "*");
}

/** Returns a test of rules in force: whether the rule, or an equal one of an earlier version of its mandate, fired. */
async function firedInForce({ reads, state }: NeverFireQuery, fired: FiredRules) {
  const inForce = new Map<string, ReadonlySet<string>>();
  const pace = new Pace();
  for (const [mandateId, versions] of fired) {
    const mandate = state.policies.mandates.get(mandateId);
    if (mandate === undefined) continue;
    const { version } = mandate.compiled;
    const rules = new Set(versions.get(version));
    const earlier = [...versions.keys()].filter((each) => each !== version);
    if (earlier.length > 0) {
      const definitions = await readDefinitions(reads, state.workspaceId, mandateId, earlier);
      const texts = definitions.flatMap((each) => firedTexts(each, versions.get(each.version)));
      const known = new Set(texts);
      rulesOf(mandate.sealed.definition as JsonObject).forEach((rule, index) => {
        if (known.has(rule)) rules.add(`rules[${index}]`);
      });
    }
    inForce.set(mandateId, rules);
    await pace.turn();
  }
  return (mandateId: string, rule: string): boolean => {
    const rules = inForce.get(mandateId);
    return rules !== undefined && (rules.has(rule) || rules.has("*"));
  };
}

interface Definition {
  readonly version: number;
  readonly definition: JsonObject;
}

/** Versions whose definitions are read at a time: one has at most 200 rules. */
const VERSIONS = 20;

async function readDefinitions(
  reads: ReadOnlyDatabase,
  workspaceId: string,
  mandateId: string,
  versions: readonly number[],
): Promise<readonly Definition[]> {
  const found: Definition[] = [];
  for (let at = 0; at < versions.length; at += VERSIONS) {
    const values = [workspaceId, mandateId, versions.slice(at, at + VERSIONS)];
    const { rows } = await stored(reads.query<Definition & {}>({ ...readMandateVersions, values }));
    found.push(...rows);
  }
  return found;
}

const rulesOf = ({ rules }: JsonObject): readonly string[] =>
  Array.isArray(rules) ? rules.map((rule) => canonicalJson(rule)) : [];

function firedTexts({ definition }: Definition, fired: ReadonlySet<string> | undefined): readonly string[] {
  return rulesOf(definition).filter((_, index) => fired?.has(`rules[${index}]`) || fired?.has("*"));
}
