import type { MandateSource } from "../../policy/types.ts";
import type { Asked } from "./question.ts";

/** A rule, a version of a mandate or a decision that an answer rests on; the fields of the message `Evidence`. */
export interface Evidence {
  readonly mandateId?: string | undefined;
  readonly mandateName?: string | undefined;
  readonly version?: number | undefined;
  readonly rule?: string | undefined;
  readonly text: string;
  readonly decisionId?: string | undefined;
}

/** Findings about a question. */
export interface Findings {
  /** Sentences. */
  readonly sentences: readonly string[];
  readonly holds?: boolean;
  readonly evidence: readonly Evidence[];
}

/** The answer to a question; the fields of the message `Answer`. */
export interface Answer {
  /** The question in fields. */
  readonly asked: Asked;
  readonly text: string;
  readonly holds: boolean | undefined;
  readonly evidence: readonly Evidence[];
}

/** Maximum number of items of evidence in an answer. */
export const MAX_EVIDENCE = 100;
/** Maximum characters of one name, message or value in an answer. */
const MAX_TEXT = 300;

/** Joins findings to an answer of one line; evidence past the bound is counted. */
export function answerFrom(asked: Asked, { sentences, holds, evidence }: Findings): Answer {
  const left = evidence.length - MAX_EVIDENCE;
  const more = left > 0 ? [`The evidence leaves out ${left} more.`] : [];
  return { asked, text: [...sentences, ...more].join(" "), holds, evidence: evidence.slice(0, MAX_EVIDENCE) };
}

// Control and format characters, and line ends: none of them is visible, and some change how others are shown.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
/** The start of a tag or of a character reference, and the middle of a link. */
const MARKUP = /<(?=[A-Za-z/!?])|&(?=[A-Za-z#])|\](?=\()/g;
/** Characters that could end the quotes of a name, or be read as markup in one. */
const IN_NAME = /[\\"<>&`[\]]/g;

const escaped = (character: string): string => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`;

/** Cuts a text that is too long for an answer. */
function shortened(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT).toWellFormed()}…` : text;
}

/** Returns a text that others wrote as plain text on one line. */
export function plain(text: string): string {
  return shortened(text).replace(UNSEEN, escaped).replace(MARKUP, escaped);
}

/** Returns a name in double quotes that it cannot end. */
export function quoted(name: string): string {
  return `"${shortened(name).replace(IN_NAME, escaped).replace(UNSEEN, escaped)}"`;
}

/** Makes a sentence of a text without a full stop. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.…!?]$/.test(text) ? "" : "."}`;
}

/** Names an agent with its id. */
export const agentText = (name: string, agentId: string): string => `${quoted(name)} (${agentId})`;

/** Counts things: `1 rule`, `2 rules`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Lists the first of some texts and counts the others. */
export function listed(texts: readonly string[], most: number): string {
  const shown = texts.slice(0, most).join(", ");
  return texts.length > most ? `${shown} and ${texts.length - most} more` : shown;
}

/** Makes evidence of a rule; without one, of the mandate. */
export function evidenceOf(
  { id, name, version }: Pick<MandateSource, "id" | "name" | "version">,
  rule: string | undefined,
  text: string,
): Evidence {
  return { mandateId: id, mandateName: name, version, rule, text };
}
