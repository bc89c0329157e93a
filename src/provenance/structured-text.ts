import type { JsonValue } from "@bufbuild/protobuf";
import { Composer, type CST, isMap, isScalar, isSeq, Lexer, Parser } from "yaml";
import { JsonFault, jsonReading } from "../json/read-json.ts";

/** An object or a list that a text stands for. */
export interface TextStructure {
  readonly value: JsonValue;
  /** Parts of the text that stand outside of the value, or that the value has in another form: comments, long numerals. */
  readonly besides: readonly string[];
}

/** Maximum number of lists and objects around a value. */
const MAX_DEPTH = 64;
/** Maximum number of values of a JSON text. */
const MAX_VALUES = 1_048_576;
/** Maximum characters and tokens of a YAML text, which is read about a hundred times slower than JSON. */
const MAX_YAML_LENGTH = 262_144;
const MAX_YAML_TOKENS = 200_000;
/** Tokens that are read between two turns. */
const STEP = 256;
/** Numerals that a double may not hold as they are written. */
const LONG_NUMERAL = /-?\d[\d.]{14,}(?:e[-+]?\d{1,4})?/giu;
const JSON_START = /^\s*[[{]/u;

/**
 * Reads a text as JSON, then as YAML. Undefined for a text that is neither, that names a member twice, or that gives a single value,
 * as any prose does in YAML; and for YAML with anchors, aliases, tags or directives, or of several documents.
 */
export function* structureOf(text: string): Generator<undefined, TextStructure | undefined> {
  if (!JSON_START.test(text)) return yield* yamlStructure(text);
  const json = yield* readJson(text);
  if (json === "malformed") return yield* yamlStructure(text);
  if (json === "refused") return undefined;
  return { value: json.value, besides: [...text.matchAll(LONG_NUMERAL)].map(([numeral]) => numeral) };
}

/** Reads a text as JSON; undefined for another text, and for one that is nested too deeply. */
export function* jsonOf(text: string): Generator<undefined, JsonValue | undefined> {
  const json = yield* readJson(text, false);
  return typeof json === "string" ? undefined : json.value;
}

type ReadJson = { readonly value: JsonValue } | "malformed" | "refused";

function* readJson(text: string, hasUniqueMembers = true): Generator<undefined, ReadJson> {
  try {
    const bounds = { maxDepth: MAX_DEPTH, maxValues: MAX_VALUES, hasUniqueMembers };
    return { value: (yield* jsonReading(text, bounds)) as JsonValue };
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return error.kind === "malformed" ? "malformed" : "refused";
  }
}

function* yamlStructure(text: string): Generator<undefined, TextStructure | undefined> {
  const tokens = text.length > MAX_YAML_LENGTH ? undefined : yield* yamlTokens(text);
  const besides = tokens && (yield* commentsIn(tokens));
  if (tokens === undefined || besides === undefined) return undefined;
  // Texts stay as they are written: a number of an account would lose its zeros.
  const composer = new Composer({ schema: "failsafe", uniqueKeys: false, logLevel: "silent", strict: true });
  const [document] = composer.compose(tokens, true, text.length);
  yield;
  if (document === undefined || document.errors.length > 0) return undefined;
  const value = jsonFromNode(document.contents);
  return typeof value === "object" && value !== null ? { value, besides } : undefined;
}

/** Reads the tokens of a YAML text; undefined for one that has too many, or several documents. */
function* yamlTokens(text: string): Generator<undefined, CST.Token[] | undefined> {
  const parser = new Parser();
  const tokens: CST.Token[] = [];
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    tokens.push(...parser.next(lexeme));
    if (++count % STEP === 0) yield;
    if (count > MAX_YAML_TOKENS || parser.stack.length > MAX_DEPTH + 2) return undefined;
  }
  tokens.push(...parser.end());
  return tokens.filter(({ type }) => type === "document").length > 1 ? undefined : tokens;
}

const REFUSED: ReadonlySet<string> = new Set(["anchor", "alias", "tag", "directive", "error"]);

/** Lists the comments among tokens; undefined where one of them is refused. */
function* commentsIn(tokens: readonly CST.Token[]): Generator<undefined, string[] | undefined> {
  const comments: string[] = [];
  const open: unknown[] = [...tokens];
  let count = 0;
  while (open.length > 0) {
    if (++count % STEP === 0) yield;
    const next = open.pop();
    if (typeof next !== "object" || next === null) continue;
    const { type, source } = next as Partial<CST.SourceToken>;
    if (REFUSED.has(type ?? "")) return undefined;
    if (type === "comment") comments.push(source ?? "");
    for (const member of Object.values(next)) if (typeof member === "object") open.push(member);
  }
  return comments;
}

/** Converts a node; undefined for one that names a member twice, or has a list or an object as a name. Its depth is bounded. */
function jsonFromNode(node: unknown): JsonValue | undefined {
  if (node === null) return null;
  if (isScalar(node)) return node.value === null ? null : String(node.value);
  if (isSeq(node)) {
    const items = node.items.map(jsonFromNode);
    return items.includes(undefined) ? undefined : (items as JsonValue[]);
  }
  if (!isMap(node)) return undefined;
  const members = new Map<string, JsonValue>();
  for (const { key, value } of node.items) {
    const name = key === null || isScalar(key) ? String(key?.value ?? "") : undefined;
    const member = jsonFromNode(value);
    if (name === undefined || member === undefined || members.has(name)) return undefined;
    members.set(name, member);
  }
  return Object.fromEntries(members);
}
