import { invalidField } from "../../errors.ts";
import { KEYS, notUnderstood } from "./forms.ts";
import { readWords, type Word } from "./words.ts";

/** What a call is asked about. */
interface AskedCall {
  /** The action type. */
  readonly actionType: string;
  /** The tool, if the question names one beside the action type. */
  readonly tool: string | undefined;
  /** True if the question says that the name is a tool's. */
  readonly namesTool: boolean;
}

/** A question as it was read; names are not looked up yet. */
export type AskedQuestion =
  | ({ readonly form: "may"; readonly agent: string /** JSON text. */; readonly args: string | undefined } & AskedCall)
  | ({ readonly form: "who_may" } & AskedCall)
  | { readonly form: "limits"; readonly agent: string }
  | { readonly form: "why"; readonly decisionId: string; readonly supposed: SupposedDecision | undefined }
  | { readonly form: "changed"; readonly mandate: string; readonly versions: readonly [number, number] | undefined }
  | { readonly form: "never_fire"; readonly days: number }
  | { readonly form: "shadowed" };

/** The decision that a question takes for granted. */
type SupposedDecision = "allow" | "block" | "escalate";

const DEFAULT_DAYS = 30;
const MAX_DAYS = 3_650;
const MAX_VERSION = 2_147_483_647;

const SUPPOSED: ReadonlyMap<string, SupposedDecision> = new Map([
  ["allowed", "allow"],
  ["blocked", "block"],
  ["denied", "block"],
  ["escalated", "escalate"],
]);

/**
 * Reads a question. Throws QUESTION_NOT_UNDERSTOOD for one of no known form, and INVALID_FIELD for one whose JSON, days or versions
 * cannot be used.
 */
export function readQuestion(text: string): AskedQuestion {
  const { words, json } = readWords(text);
  const reader = new Reader(words);
  const read = READERS.map((each) => each(reader.again(), json)).find((question) => question !== undefined);
  if (read === undefined) throw notUnderstood(words.filter(({ isQuoted }) => !isQuoted).map(({ text: word }) => word));
  return read;
}

/** Steps through the words of a question. */
class Reader {
  readonly #words: readonly Word[];
  #at = 0;

  constructor(words: readonly Word[]) {
    this.#words = words;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#words.length;
  }

  again(): this {
    this.#at = 0;
    return this;
  }

  /** Takes a key word if it is next. */
  takes(...keys: readonly string[]): boolean {
    const word = this.#words[this.#at];
    if (word === undefined || word.isQuoted || !keys.includes(word.text.toLowerCase())) return false;
    this.#at++;
    return true;
  }

  /** Takes key words that follow each other, or none of them. */
  takesAll(...keys: readonly string[]): boolean {
    const from = this.#at;
    if (keys.every((key) => this.takes(key))) return true;
    this.#at = from;
    return false;
  }

  /** Takes a name: a quoted text or one word. */
  name(): string | undefined {
    return this.#words[this.#at++]?.text;
  }

  /** Takes a number without sign or point. */
  number(): number | undefined {
    const text = this.name() ?? "";
    return /^\d{1,12}$/.test(text) ? Number(text) : undefined;
  }

  /** Takes a key word and returns what it stands for. */
  oneOf<T>(meanings: ReadonlyMap<string, T>): T | undefined {
    const [key, meaning] = [...meanings].find(([word]) => this.takes(word)) ?? [];
    return key === undefined ? undefined : meaning;
  }
}

type ReadForm = (reader: Reader, json: string | undefined) => AskedQuestion | undefined;

const READERS: readonly ReadForm[] = [
  readMay,
  readWhoMay,
  readLimits,
  readWhy,
  readChanged,
  readNeverFire,
  readShadowed,
];

function readMay(reader: Reader, json: string | undefined): AskedQuestion | undefined {
  if (!reader.takes(...KEYS.may)) return undefined;
  reader.takes("agent");
  const agent = reader.name();
  const call = readCall(reader);
  if (agent === undefined || call === undefined) return undefined;
  if (!reader.takes("with"))
    return json === undefined && reader.isAtEnd ? { form: "may", agent, ...call, args: json } : undefined;
  if (json === undefined) throw invalidField("question", "holds no JSON object after `with`");
  return reader.isAtEnd ? { form: "may", agent, ...call, args: json } : undefined;
}

function readCall(reader: Reader): AskedCall | undefined {
  const namesTool = reader.takes(...KEYS.call);
  if (!namesTool && !reader.takes(...KEYS.do)) return undefined;
  if (namesTool) reader.takes("tool");
  const actionType = reader.name();
  if (actionType === undefined) return undefined;
  if (namesTool) return { actionType, tool: undefined, namesTool };
  if (!reader.takes(...KEYS.using)) return { actionType, tool: undefined, namesTool };
  reader.takes("tool");
  const tool = reader.name();
  return tool === undefined ? undefined : { actionType, tool, namesTool };
}

function readWhoMay(reader: Reader, json: string | undefined): AskedQuestion | undefined {
  if (json !== undefined || !reader.takes("who") || !reader.takes(...KEYS.may)) return undefined;
  const call = readCall(reader);
  return call !== undefined && reader.isAtEnd ? { form: "who_may", ...call } : undefined;
}

function readLimits(reader: Reader, json: string | undefined): AskedQuestion | undefined {
  if (json !== undefined || !reader.takes(...KEYS.which) || !reader.takes("limits")) return undefined;
  const isAbout = ["apply to", "hold for", "bind"].some((words) => reader.takesAll(...words.split(" ")));
  if (!isAbout) return undefined;
  reader.takes("agent");
  const agent = reader.name();
  return agent !== undefined && reader.isAtEnd ? { form: "limits", agent } : undefined;
}

function readWhy(reader: Reader, json: string | undefined): AskedQuestion | undefined {
  if (json !== undefined || !reader.takes("why") || !reader.takes(...KEYS.was)) return undefined;
  reader.takes("decision");
  const decisionId = reader.name();
  if (decisionId === undefined) return undefined;
  const supposed = reader.oneOf(SUPPOSED);
  if (supposed === undefined) reader.takes("decided");
  return reader.isAtEnd ? { form: "why", decisionId, supposed } : undefined;
}

function readChanged(reader: Reader, json: string | undefined): AskedQuestion | undefined {
  if (json !== undefined || !reader.takes("what") || !reader.takes(...KEYS.changed)) return undefined;
  if (!reader.takes(...KEYS.inMandate)) return undefined;
  reader.takes("mandate");
  const mandate = reader.name();
  if (mandate === undefined) return undefined;
  if (reader.isAtEnd) return { form: "changed", mandate, versions: undefined };
  const versions = readVersions(reader);
  return versions !== undefined && reader.isAtEnd ? { form: "changed", mandate, versions } : undefined;
}

function readVersions(reader: Reader): readonly [number, number] | undefined {
  const isBetween = reader.takes("between");
  if (!isBetween && !reader.takes("from")) return undefined;
  reader.takes("version", "versions");
  const first = reader.number();
  if (first === undefined || !reader.takes(isBetween ? "and" : "to")) return undefined;
  reader.takes("version");
  const second = reader.number();
  if (second === undefined) return undefined;
  if (Math.max(first, second) <= MAX_VERSION && Math.min(first, second) >= 1) return [first, second];
  throw invalidField("question", `names a version that is not from 1 to ${MAX_VERSION}`);
}

function readNeverFire(reader: Reader, json: string | undefined): AskedQuestion | undefined {
  if (json !== undefined || !reader.takes(...KEYS.which) || !reader.takes(...KEYS.rules)) return undefined;
  const isAsked = reader.takesAll("never") || reader.takesAll("have", "never");
  if (!isAsked || !reader.takes(...KEYS.fire)) return undefined;
  if (reader.isAtEnd) return { form: "never_fire", days: DEFAULT_DAYS };
  if (!reader.takesAll("in", "the", "last")) return undefined;
  const days = reader.takes("day") ? 1 : reader.number();
  if (days === undefined) return undefined;
  if (!reader.isAtEnd && !reader.takes("days", "day")) return undefined;
  if (!reader.isAtEnd) return undefined;
  if (days >= 1 && days <= MAX_DAYS) return { form: "never_fire", days };
  throw invalidField("question", `asks about ${days} days, and 1 to ${MAX_DAYS} can be asked about`);
}

function readShadowed(reader: Reader, json: string | undefined): AskedQuestion | undefined {
  if (json !== undefined || !reader.takes(...KEYS.which) || !reader.takes(...KEYS.rules)) return undefined;
  if (!reader.takes(...KEYS.are) || !reader.takes(...KEYS.shadowed)) return undefined;
  return reader.isAtEnd ? { form: "shadowed" } : undefined;
}
