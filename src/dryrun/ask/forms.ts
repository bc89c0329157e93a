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
}

const FORMS: readonly FormText[] = [
  {
    form: "may",
    text: "may <agent> call <tool> with {…}, or may <agent> do <action type> using <tool> with {…}",
    keys: [KEYS.may, [...KEYS.do, ...KEYS.call]],
  },
  {
    form: "who_may",
    text: "who may call <tool>, or who may do <action type> using <tool>",
    keys: [["who"], KEYS.may, [...KEYS.do, ...KEYS.call]],
  },
  {
    form: "limits",
    text: "what limits apply to <agent>",
    keys: [KEYS.which, ["limits"], ["apply", "hold", "bind"]],
  },
  {
    form: "why",
    text: "why was <decision id> blocked",
    keys: [["why"], KEYS.was, ["allowed", "blocked", "denied", "escalated", "decided"]],
  },
  {
    form: "changed",
    text: "what changed in <mandate> between versions <number> and <number>",
    keys: [["what"], KEYS.changed, KEYS.inMandate, ["between", "from"], ["version", "versions"]],
  },
  {
    form: "never_fire",
    text: "which rules never fire in the last <number> days",
    keys: [KEYS.which, KEYS.rules, ["never"], KEYS.fire],
  },
  { form: "shadowed", text: "which rules are shadowed", keys: [KEYS.which, KEYS.rules, KEYS.are, KEYS.shadowed] },
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

/** Finds the form whose key words need the fewest edits to become words of the question, by their length; among equals the first. */
function nearestForm(words: readonly string[]): FormText {
  const compared = words.slice(0, MAX_WORDS).flatMap((word) => {
    return word.length > MAX_WORD ? [] : [word.toLowerCase()];
  });
  const [first, ...others] = FORMS.map((form) => ({ form, edits: editsTo(form, compared) }));
  return others.reduce(
    (best, each) => (each.edits < best.edits ? each : best),
    first as { form: FormText; edits: number },
  ).form;
}

/** Edits for each character of the form's key words; 1 if nothing of them is there. */
function editsTo({ keys }: FormText, words: readonly string[]): number {
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
  return edits / length;
}
