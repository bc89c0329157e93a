import { stringify } from "yaml";
import { DECLARED } from "../../notation/declared-path.ts";
import { isJsonRecord, type JsonRecord } from "../../verify/json.ts";
import type { RegisteredTool } from "./registered-tools.ts";
import { EFFECT_TEXTS, EFFECTS, type Effect, type Kind } from "./words.ts";

/** Verbs of tools' names, by the effect that they tell. */
const VERBS: Readonly<Record<Effect, readonly string[]>> = {
  pay: ["pay", "buy", "purchase", "checkout", "charge", "payout"],
  destroy: [
    "delete",
    "remove",
    "destroy",
    "drop",
    "purge",
    "erase",
    "wipe",
    "revoke",
    "cancel",
    "terminate",
    "transfer",
  ],
  send: [
    "send",
    "post",
    "publish",
    "reply",
    "forward",
    "invite",
    "share",
    "comment",
    "notify",
    "submit",
    "push",
    "upload",
    "message",
    "tweet",
  ],
  write: [
    "create",
    "add",
    "update",
    "set",
    "edit",
    "move",
    "copy",
    "rename",
    "write",
    "save",
    "put",
    "insert",
    "change",
    "download",
    "make",
    "append",
    "reschedule",
    "patch",
  ],
  read: [
    "get",
    "list",
    "read",
    "search",
    "find",
    "view",
    "show",
    "fetch",
    "browse",
    "lookup",
    "query",
    "check",
    "count",
    "describe",
    "open",
    "visit",
  ],
};
/** Things of which a verb such as `send` spends money. */
const MONEY = ["money", "payment", "funds", "invoice", "payout", "cash"];
/** Verbs of tools that make something new. */
const MAKING = ["create", "make", "write", "save", "download", "add"];

/** Words of arguments' names, by the kind that they tell, in the order in which they are looked for. */
const KIND_WORDS: readonly (readonly [kind: Kind, words: readonly string[]])[] = [
  ["credential", ["password", "passwd", "secret", "credential", "credentials", "token", "ssh", "apikey"]],
  ["host", ["url", "urls", "uri", "link", "host", "hostname", "domain", "website", "endpoint", "webhook"]],
  [
    "destination",
    [
      "to",
      "cc",
      "bcc",
      "recipient",
      "recipients",
      "email",
      "emails",
      "iban",
      "account",
      "phone",
      "channel",
      "participant",
      "participants",
      "attendee",
      "attendees",
      "collaborator",
      "owner",
      "member",
      "invitee",
      "payee",
      "beneficiary",
    ],
  ],
  ["path", ["path", "file", "filename", "dir", "directory", "folder", "filepath"]],
  ["number", ["amount", "price", "quantity", "total", "sum"]],
  ["text", ["body", "content", "contents", "message", "subject", "title", "comment", "description", "note", "text"]],
  ["resource", ["id", "ids", "repo", "repository", "project", "issue", "branch", "product", "order", "name", "key"]],
];
/** Words of arguments that name one-time codes and times, which are not looked at. */
const LEFT_OUT = ["otp", "pin", "date", "time", "day", "timeout", "limit", "page"];
/** Formats of JSON Schema, by the kind that they tell. */
const KINDS_OF_FORMATS: ReadonlyMap<unknown, Kind> = new Map([
  ["email", "destination"],
  ["idn-email", "destination"],
  ["uri", "host"],
  ["url", "host"],
  ["hostname", "host"],
]);

const HEADER = [
  "# Tools for `agentctl pack add`. Every line is a guess from names, descriptions and schemas: correct it before you add a pack.",
  "#",
  "# effect: what a call does.",
  ...EFFECTS.map((effect) => `#   ${effect.padEnd(8)} ${EFFECT_TEXTS[effect]}`),
  "# arguments: paths of arguments with the kind of their values: destination, credential, host, resource, path, number or text.",
  "#   An argument that is not listed is not looked at.",
  "# trusted_fields: members of results that your own system fills and nobody else writes; free_fields: those that others write, which",
  "#   makes all others trusted. Neither is guessed.",
  "# session_arguments, session_fields: arguments and members of results that name what a call makes.",
  "# plan_words: words of a prompt on which the tool belongs to a plan; a tool without them belongs to every plan.",
  "#",
  "# lists: named lists that are trusted, such as `lists: {partners: [destination]}`.",
];

/** Drafts a file of tools. The same tools give the same text. */
export function draftToolFile(tools: readonly RegisteredTool[]): string {
  return [...HEADER, "tools:", ...tools.flatMap((tool) => ["", ...toolLines(tool)]), ""].join("\n");
}

function toolLines(tool: RegisteredTool): readonly string[] {
  const { name, description, provenance, paths, schema } = tool;
  const words = wordsOf(name);
  const { effect, isGuess } = effectOf(words, wordsOf(firstSentence(description)));
  const kinds = paths.flatMap((path) => {
    const kind = kindOf(path, schema);
    return kind === undefined ? [] : [{ path, kind }];
  });
  const left = paths.filter((path) => !kinds.some((each) => each.path === path || each.path.startsWith(`${path}[`)));
  const listed = kinds.filter(({ path }) => !kinds.some((each) => each.path === `${path}[]`));
  const made =
    provenance === undefined && effect === "write" && words.some((word) => MAKING.includes(word))
      ? listed.filter(({ kind }) => kind === "path").map(({ path }) => path)
      : [];
  const planWords = words.filter((word) => word.length > 2 && !VERBS.read.includes(word));
  const declared = DECLARED.flatMap((member) => {
    const given = provenance?.[member];
    return Array.isArray(given) && given.length > 0 ? [`    ${member}: ${inline(given)}`] : [];
  });
  return [
    ...(description === "" ? [] : [`  # ${firstSentence(description)}`]),
    `  ${inline(name)}:`,
    `    effect: ${effect}${isGuess ? " # nothing tells what it does" : ""}`,
    ...(listed.length === 0 ? [] : ["    arguments:"]),
    ...listed.map(({ path, kind }) => `      ${inline(path)}: ${kind}`),
    ...(left.length === 0 ? [] : [`    # not looked at: ${left.map(oneLine).join(", ")}`]),
    ...declared,
    ...(made.length === 0 ? [] : [`    session_arguments: ${inline(made)}`]),
    ...(effect === "read" || planWords.length === 0 ? [] : [`    plan_words: ${inline([...new Set(planWords)])}`]),
  ];
}

/** Returns the effect that the first telling word of a name has, else of a description; else `send`, about which much is asked. */
function effectOf(name: readonly string[], description: readonly string[]): { effect: Effect; isGuess: boolean } {
  for (const words of [name, description]) {
    for (const word of words) {
      const effect = EFFECTS.find((each) => VERBS[each].some((verb) => word === verb || word === `${verb}s`));
      if (effect === undefined) continue;
      const spends = (effect === "send" || word === "transfer") && words.some((each) => MONEY.includes(each));
      return { effect: spends ? "pay" : effect, isGuess: false };
    }
  }
  return { effect: "send", isGuess: true };
}

/** Returns the kind of an argument by its schema's format and its name; undefined for one that is not looked at. */
function kindOf(path: string, root: JsonRecord): Kind | undefined {
  const schema = schemaAt(root, path);
  if (schema.enum !== undefined || schema.const !== undefined) return undefined;
  const types = [schema.type].flat().filter((type) => type !== "null");
  if (types.length > 0 && types.every((type) => type === "boolean" || type === "object" || type === "array"))
    return undefined;
  const isNumber = types.length > 0 && types.every((type) => type === "number" || type === "integer");
  const words = wordsOf(path.replaceAll("[]", "").split(".").at(-1) ?? "");
  if (words.some((word) => LEFT_OUT.includes(word))) return undefined;
  const format = KINDS_OF_FORMATS.get(schema.format);
  if (format !== undefined) return format;
  // The last word says what a value is: `email_id` is an id.
  const last = words.at(-1);
  const of = (word: string | undefined): Kind | undefined =>
    KIND_WORDS.find(([, known]) => word !== undefined && known.includes(word))?.[0];
  const kind = words.includes("ssh") ? "credential" : (of(last) ?? words.map(of).find((each) => each !== undefined));
  if (isNumber) return kind === "resource" ? "resource" : kind === "number" ? "number" : undefined;
  return kind;
}

/** Finds the schema of an argument; an empty one where references or alternatives hide it. */
function schemaAt(root: JsonRecord, path: string): JsonRecord {
  let schema: JsonRecord = root;
  for (const step of path.match(/\[\]|[^.[\]]+/g) ?? []) {
    const next = step === "[]" ? schema.items : memberOf(schema.properties, step);
    schema = isJsonRecord(next) ? next : {};
  }
  return schema;
}

/** Splits a name into its words, in lower case: `sendEmail`, `send_email` and `mail/send-email` have `send` and `email`. */
function wordsOf(name: string): readonly string[] {
  return name
    .replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "");
}

const memberOf = (value: unknown, name: string): unknown =>
  isJsonRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined;

const oneLine = (text: string): string => text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, " ").trim();

/** Returns the first sentence of a description within a line. Descriptions come from others, and may hold anything. */
function firstSentence(description: string): string {
  const [sentence = ""] = oneLine(description).split(/(?<=\.)\s/u);
  return sentence.length > 100 ? `${sentence.slice(0, 99).toWellFormed()}…` : sentence;
}

/** Writes a value as YAML on one line. A long or odd text is quoted, since a key over several lines is none. */
const inline = (value: unknown): string =>
  typeof value === "string" && value.length <= 100 && oneLine(value) === value
    ? stringify(value, { lineWidth: 0, defaultStringType: "PLAIN", blockQuote: false }).trim()
    : JSON.stringify(value);
