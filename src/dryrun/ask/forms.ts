import { distance } from "fastest-levenshtein";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** The kinds of question; the words of the proto enum `QuestionForm`. */
export type Form = "may" | "who_may" | "limits" | "why" | "changed" | "never_fire" | "shadowed";

/** Key words of the grammar with their synonyms, in lower case. */
export const KEYS = {
  may: ["may", "can"],
  do: ["do", "perform"],
  call: ["call", "use", "invoke"],
  using: ["using", "through"],
  which: ["what", "which"],
  was: ["was", "is"],
  changed: ["changed", "differs"],
  inMandate: ["in", "of"],
  rules: ["rules", "rule"],
  fire: ["fire", "fires", "fired"],
  are: ["are", "is"],
  shadowed: ["shadowed", "hidden"],
} as const satisfies Readonly<Record<string, readonly string[]>>;

interface FormText {
  readonly form: Form;
  /** The form, as errors show it. */
  readonly text: string;
  /** What stands in it beside names: one list of synonyms a place. */
  readonly keys: readonly (readonly string[])[];
  /** Words in which people ask it otherwise: they make it the nearest form, and are not understood. */
  readonly otherwise: readonly (readonly string[])[];
}

const ALLOWED = ["allowed", "permitted", "able"];
const IS = ["is", "are"];

const FORMS: readonly FormText[] = [
  {
    form: "may",
    text: "may <agent> call <tool> with {…}, or may <agent> do <action type> using <tool> with {…}",
    keys: [KEYS.may, [...KEYS.do, ...KEYS.call]],
    otherwise: [IS, ALLOWED],
  },
  {
    form: "who_may",
    text: "who may call <tool>, or who may do <action type> using <tool>",
    keys: [["who"], KEYS.may, [...KEYS.do, ...KEYS.call]],
    otherwise: [["who", "agents"], IS, ALLOWED],
  },
  {
    form: "limits",
    text: "what limits apply to <agent>",
    keys: [KEYS.which, ["limits"], ["apply", "hold", "bind"]],
    otherwise: [["limit", "limits", "quota", "quotas"]],
  },
  {
    form: "why",
    text: "why was <decision id> blocked",
    keys: [["why"], KEYS.was, ["allowed", "blocked", "denied", "escalated", "decided"]],
    otherwise: [["reason", "reasons"]],
  },
  {
    form: "changed",
    text: "what changed in <mandate> between versions <number> and <number>",
    keys: [["what"], KEYS.changed, KEYS.inMandate, ["between", "from"], ["version", "versions"]],
    otherwise: [["difference", "differences", "diff", "history"]],
  },
  {
    form: "never_fire",
    text: "which rules never fire in the last <number> days",
    keys: [KEYS.which, KEYS.rules, ["never"], KEYS.fire],
    otherwise: [["unused", "dead", "idle"]],
  },
  {
    form: "shadowed",
    text: "which rules are shadowed",
    keys: [KEYS.which, KEYS.rules, KEYS.are, KEYS.shadowed],
    otherwise: [["redundant", "duplicate", "overridden", "superfluous"]],
  },
];

/** Words of a question, and characters of a word, that are compared with key words. */
const MAX_WORDS = 64;
const MAX_WORD = 32;

/** Creates the error for a question of no known form, with all forms and the one nearest to its words. */
export function notUnderstood(words: readonly string[]): ControlPlaneError {
  const nearest = nearestForm(words).text;
  const forms = FORMS.map(({ text }) => `\`${text}\``).join("; ");
  const description = `is of no form that can be asked; did you mean \`${nearest}\`? The forms are ${forms}`;
  return new ControlPlaneError(
    ErrorReason.QUESTION_NOT_UNDERSTOOD,
    `\`question\` ${description}`,
    { field: "question", nearest, forms: FORMS.map(({ text }) => text).join("; ") },
    { violations: [{ field: "question", description, reason: "QUESTION_NOT_UNDERSTOOD" }] },
  );
}

/**
 * Finds the form whose key words, or other words for it, need the fewest edits to become words of the question, by their length;
 * among equals the one with the most characters in them, then the first.
 */
function nearestForm(words: readonly string[]): FormText {
  const compared = words.slice(0, MAX_WORDS).flatMap((word) => {
    return word.length > MAX_WORD ? [] : [word.toLowerCase()];
  });
  let [nearest] = FORMS as readonly [FormText, ...FormText[]];
  let best: Nearness = { edits: 1, length: 0 };
  for (const form of FORMS) {
    for (const keys of [form.keys, form.otherwise]) {
      const each = nearnessOf(keys, compared);
      const isNearer = each.edits < best.edits || (each.edits === best.edits && each.length > best.length);
      if (isNearer && each.edits < 1) [nearest, best] = [form, each];
    }
  }
  return nearest;
}

/** Edits for each character of some key words, 1 if nothing of them is there; and their characters. */
interface Nearness {
  readonly edits: number;
  readonly length: number;
}

function nearnessOf(keys: FormText["keys"], words: readonly string[]): Nearness {
  let edits = 0;
  let length = 0;
  for (const synonyms of keys) {
    const found = synonyms.flatMap((key) =>
      words.map((word) => Math.min(key.length, distance(key, word)) / key.length),
    );
    const longest = Math.max(...synonyms.map((key) => key.length));
    edits += longest * Math.min(1, ...found);
    length += longest;
  }
  return { edits: edits / length, length };
}
