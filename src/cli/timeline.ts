import { reasonsIn, receiptSentences, type SealedReason } from "../explain/receipt.ts";
import { plainText } from "../explain/sentence.ts";
import { isJsonRecord, type JsonRecord, listAt, textAt, valueAt } from "../verify/json.ts";
import { budgetText } from "./budget-text.ts";
import { Answers, type DecisionReferences, eventsIn, referencesIn } from "./timeline-explainers.ts";

/** One entry of the log that concerns a decision. */
export interface TimelineItem {
  readonly index: number;
  /** RFC 3339 UTC. */
  readonly at: string;
  /** Key that made the entry. */
  readonly by: string;
  /** Name of the key or its person, as the service gives it beside the log; absent if there is none. */
  readonly by_name?: string;
  readonly text: string;
}

/** Explanation of a decision by the entries of its log. */
export interface Explanation {
  readonly decision: JsonRecord;
  /** Name of the key that asked for it, as `by_name`. */
  readonly key_name?: string;
  /** State when the decision was made, oldest change first. */
  readonly before: readonly TimelineItem[];
  /** Later changes that concern the decision, oldest first. */
  readonly after: readonly TimelineItem[];
  /** References of the decision without an earlier entry. */
  readonly unexplained: readonly string[];
}

/** Topics on which only changes before the decision matter: later ones concern later decisions. */
const ONLY_BEFORE = /^(settings|trust|key|member|registered|mandate|tool)\b/;

/** Members that name the author of an entry, of which each has one. */
const AUTHORS = ["by", "key_id", "claimed_by", "reported_by"];

/** Collects the entries that explain a decision. */
export class Timeline {
  readonly #decision: JsonRecord;
  readonly #references: DecisionReferences;
  #keyName: string | undefined;
  /** Items by topic: a later entry replaces an earlier one on the same topic. */
  readonly #before = new Map<string, TimelineItem>();
  readonly #after = new Map<string, TimelineItem>();
  readonly #answers = new Answers();

  /** `decision` is the body of the decision's entry. */
  constructor(decision: JsonRecord) {
    this.#decision = decision;
    this.#references = referencesIn(decision);
  }

  /**
   * Adds an entry if it concerns the decision. MUST be called with every entry of the log, in order. `byName`: the name of its author,
   * which nobody sealed.
   */
  add(entry: JsonRecord, byName?: string): void {
    const index = Number(entry.seq);
    const by = AUTHORS.map((name) => textAt(entry, name)).find((author) => author !== "") ?? "";
    this.#answers.add(entry, by, byName);
    if (index === this.#references.index) {
      this.#keyName = byName;
      return;
    }
    const isBefore = index < this.#references.index;
    const items = isBefore ? this.#before : this.#after;
    for (const { topic, text } of eventsIn(entry, this.#references, this.#answers)) {
      if (!isBefore && ONLY_BEFORE.test(topic)) continue;
      // Deleted first, because a map keeps the position of a key that is set again.
      items.delete(topic);
      items.set(topic, {
        index,
        at: textAt(entry, "at"),
        by,
        ...(byName === undefined ? {} : { by_name: byName }),
        text,
      });
    }
  }

  explanation(): Explanation {
    return {
      decision: this.#decision,
      ...(this.#keyName === undefined ? {} : { key_name: this.#keyName }),
      before: [...this.#before.values()],
      after: [...this.#after.values()],
      unexplained: this.#unexplained(),
    };
  }

  #unexplained(): string[] {
    const { agentIds, mandates, tool, authorityIds } = this.#references;
    const needed = [
      ...[...agentIds].map((id) => [`registered ${id}`, `the registration of agent ${id}`]),
      ...[...mandates].map(([id, { version }]) => [`mandate ${id}`, `version ${String(version)} of mandate ${id}`]),
      ...[...authorityIds].map((id) => [`made ${id}`, id]),
      ...(tool === undefined ? [] : [["tool", `version ${String(tool.version)} of tool \`${tool.name}\``]]),
    ];
    return needed.filter(([topic = ""]) => !this.#before.has(topic)).map(([, text = ""]) => text);
  }
}

/** Formats an explanation for people. */
export function timelineLines({ decision, key_name, before, after, unexplained }: Explanation): string[] {
  return [
    ...decisionLines(decision, key_name),
    ...itemLines("what held:", before),
    ...itemLines("what became of it:", after),
    ...unexplained.map((what) => `NOT FOUND before it in the log: ${what}`),
  ];
}

function decisionLines(decision: JsonRecord, keyName: string | undefined): string[] {
  const text = (path: string): string => textAt(decision, path);
  const place = `entry ${String(decision.seq)}, ${text("at")}, key ${named(text("key_id"), keyName)}`;
  return [
    `decision ${text("decision_id")}: ${text("decision")} by ${text("decision_path")}, ${place}`,
    ...receiptSentences(decision).map((sentence) => `  ${plainText(sentence)}`),
    ...reasonsIn(decision).map(reasonLine),
    ...listAt(decision, "authorisation.collective_limits").map(limitLine),
    ...listAt(decision, "guards").map(guardLine),
  ];
}

function reasonLine({ code, message, mandateId, rule, wouldPass }: SealedReason): string {
  const where = mandateId === "" ? "" : ` (mandate ${mandateId}, ${rule})`;
  return `  because    ${message || code}${where}${wouldPass === "" ? "" : `; ${wouldPass}`}`;
}

const fitsText = (resetsAt: string): string => (resetsAt === "" ? "" : `; one more fits from ${resetsAt}`);

function limitLine(limit: unknown): string {
  const budget = isJsonRecord(limit) ? budgetText(limit) : undefined;
  if (budget !== undefined) return `  budget     ${budget}`;
  const [scope, group] = [textAt(limit, "scope"), textAt(limit, "group")];
  const count = `${String(valueAt(limit, "count"))} of ${String(valueAt(limit, "limit"))}`;
  return `  limit      ${count} in ${String(valueAt(limit, "window"))} s for ${scope} ${group}, from ${textAt(limit, "source") || "decision_log"}${fitsText(textAt(limit, "resets_at"))}`;
}

function guardLine(guard: unknown): string {
  const where = `${textAt(guard, "rule")} of mandate ${textAt(guard, "mandate_id")}`;
  const unavailable = textAt(guard, "unavailable");
  if (unavailable !== "") return `  guard      no verdict on ${where}: ${unavailable}`;
  const verdict = valueAt(guard, "violates") === true ? "violates" : "does not violate";
  const confidence = String(valueAt(guard, "confidence"));
  return `  guard      ${verdict} ${where}, confidence ${confidence}, said ${textAt(guard, "model")}`;
}

/** Writes an id with its name, if it has one. */
const named = (id: string, name: string | undefined): string => (name === undefined ? id : `${id} (\`${name}\`)`);

function itemLines(heading: string, items: readonly TimelineItem[]): string[] {
  if (items.length === 0) return [];
  const width = Math.max(...items.map(({ index }) => String(index).length));
  return [
    heading,
    ...items.map(
      ({ index, at, by, by_name, text }) =>
        `  ${String(index).padStart(width)}  ${at}  ${text}, by ${named(by, by_name)}`,
    ),
  ];
}
