import type { ArgumentShape } from "../../../notation/argument-shape.ts";
import {
  signatureOf,
  WHEN_CALLS,
  WHEN_MACROS,
  WHEN_VARIABLES,
  type WhenCall,
  type WhenType,
  type WhenVariable,
} from "../../../notation/when-names.ts";

/** One thing that may stand at the end of an expression. */
export interface WhenOption {
  readonly label: string;
  readonly kind: "variable" | "member" | "function" | "macro" | "word" | "text";
  /** Kind of its value, or how it is called. */
  readonly detail?: string;
  readonly help?: string;
  /** Names of the arguments that a call is written with. */
  readonly takes?: readonly string[];
}

/** Completions of an expression. */
export interface WhenCompletions {
  /** End of the expression that they replace. */
  readonly typed: string;
  readonly options: readonly WhenOption[];
}

/** Surroundings of an expression. */
export interface WhenSurroundings {
  /** Arguments of the rule's tool; undefined if it names none. */
  readonly shape: ArgumentShape | undefined;
  /** Named lists of the workspace. */
  readonly lists: readonly string[];
}

/** A value in an expression, as far as it is known. */
interface Known {
  readonly type: WhenType;
  readonly members?: readonly WhenVariable[] | undefined;
  readonly shape?: ArgumentShape | undefined;
  readonly elements?: Known | undefined;
}

interface Token {
  readonly kind: "name" | "number" | "text" | "sign" | "comment";
  readonly text: string;
  /** Content of a text. */
  readonly content: string;
  /** True for a text or comment without its end. */
  readonly isOpen: boolean;
}

/** A bracket that is open at a place. */
interface Frame {
  readonly bracket: string;
  /** The function or macro that is called. */
  readonly callee: string | undefined;
  /** The value before the dot, or before the bracket of an index. */
  readonly object: Known | undefined;
  /** The value with which the elements of a list are compared. */
  readonly compared: Known | undefined;
  commas: number;
  /** Variable of a macro. */
  variable: string | undefined;
}

const UNKNOWN: Known = { type: "value" };
const CALLS: readonly WhenCall[] = WHEN_CALLS;
const MACROS: readonly WhenCall[] = WHEN_MACROS;
const VARIABLES: readonly WhenVariable[] = WHEN_VARIABLES;
const IDENTIFIER = /^[A-Za-z_]\w*$/;
const TOKEN =
  /\s+|(?<comment>\/\/[^\n]*)|(?<raw>[rR]?)(?<quote>"""|'''|"|')|(?<name>[A-Za-z_]\w*)|(?<number>\d[\w.]*)|(?<sign>&&|\|\||[=!<>]=|[\s\S])/y;

/** Kinds of values by the types of a schema. */
const TYPES: Readonly<Record<string, WhenType>> = {
  string: "text",
  number: "number",
  integer: "number",
  boolean: "bool",
  array: "list",
  object: "object",
};

/** Completes an expression at its end. Undefined where nothing of a known list may stand. */
export function completeWhen(expression: string, around: WhenSurroundings): WhenCompletions | undefined {
  const tokens = tokensOf(expression);
  const last = tokens.at(-1);
  if (last?.kind === "comment" && last.isOpen) return undefined;
  const isTyping = last !== undefined && (last.kind === "name" ? /\w$/.test(expression) : last.isOpen);
  const place = new Place(around);
  for (const token of isTyping ? tokens.slice(0, -1) : tokens) place.read(token);
  if (last?.kind === "text" && last.isOpen) return { typed: last.content, options: place.textOptions() };
  const typed = isTyping ? last.text : "";
  if (typed === "" && last?.kind === "number" && /[\w.]$/.test(expression)) return undefined;
  return { typed, options: place.options() };
}

function tokensOf(expression: string): readonly Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < expression.length; ) {
    TOKEN.lastIndex = at;
    const { 0: whole = "", groups = {} } = TOKEN.exec(expression) ?? {};
    const { comment, quote, raw = "", name, number, sign } = groups;
    at += Math.max(whole.length, 1);
    const plain = { text: whole, content: "", isOpen: false };
    if (quote !== undefined) {
      const end = endOfText(expression, at, quote, raw !== "");
      const content = expression.slice(at, end ?? expression.length);
      tokens.push({ kind: "text", text: whole, content, isOpen: end === undefined });
      at = end === undefined ? expression.length : end + quote.length;
    } else if (comment !== undefined) tokens.push({ ...plain, kind: "comment", isOpen: at >= expression.length });
    else if (name !== undefined) tokens.push({ ...plain, kind: "name" });
    else if (number !== undefined) tokens.push({ ...plain, kind: "number" });
    else if (sign !== undefined) tokens.push({ ...plain, kind: "sign" });
  }
  return tokens;
}

/** Returns where the content of a text ends; undefined if it is open. */
function endOfText(expression: string, start: number, quote: string, isRaw: boolean): number | undefined {
  for (let at = start; at < expression.length; at += expression[at] === "\\" && !isRaw ? 2 : 1) {
    if (expression.startsWith(quote, at)) return at;
  }
  return undefined;
}

/** Follows an expression from its start and tells what may stand behind it. */
class Place {
  readonly #around: WhenSurroundings;
  readonly #frames: Frame[] = [];
  #previous: Token | undefined;
  /** The value that ends here; undefined where one may begin. */
  #value: Known | undefined;
  /** The value before the last name. */
  #object: Known | undefined;
  /** The value before an operator that compares. */
  #compared: Known | undefined;

  constructor(around: WhenSurroundings) {
    this.#around = around;
  }

  read(token: Token): void {
    if (token.kind === "comment") return;
    if (token.kind === "name") this.#name(token.text);
    else if (token.kind === "text") this.#value = { type: "text" };
    else if (token.kind === "number") this.#value = { type: "number" };
    else this.#sign(token.text);
    this.#previous = token;
  }

  /** Lists what may stand at the place. */
  options(): readonly WhenOption[] {
    if (this.#previous?.text === "." && this.#previous.kind === "sign") return membersOf(this.#value ?? UNKNOWN);
    if (this.#value !== undefined)
      return [{ label: "in", kind: "word", help: "tests whether a list or object has it" }];
    const frame = this.#frames.at(-1);
    // The variable of a macro is a new name.
    if (frame?.callee !== undefined && isLoop(frame.callee) && frame.object !== undefined && frame.commas === 0)
      return [];
    return [...this.#scope().map(([name, known]) => variableOption(name, known)), ...TOP_OPTIONS];
  }

  /** Lists what an open text may be. */
  textOptions(): readonly WhenOption[] {
    const frame = this.#frames.at(-1);
    if (frame?.callee === "in_list" && frame.commas === 1) {
      return this.#around.lists.map(textOption);
    }
    if (frame?.callee?.startsWith("get") === true && frame.object !== undefined) {
      return ["UTC", ...Intl.supportedValuesOf("timeZone")].map(textOption);
    }
    if (this.#value !== undefined) return [];
    if (this.#compared !== undefined) return (this.#compared.shape?.argument?.texts ?? []).map(textOption);
    if (frame?.bracket !== "[" || frame.object === undefined) return [];
    return [...(frame.object.shape?.members ?? [])].map(([name, shape]) => memberOption(name, shape));
  }

  #name(name: string): void {
    if (this.#previous?.text === "." && this.#previous.kind === "sign") {
      this.#object = this.#value ?? UNKNOWN;
      this.#value = memberOf(this.#object, name);
      return;
    }
    this.#object = undefined;
    if (name === "in") {
      this.#compared = this.#value;
      this.#value = undefined;
      return;
    }
    const frame = this.#frames.at(-1);
    if (frame !== undefined && frame.commas === 0) frame.variable ??= name;
    this.#value = this.#scope().find(([known]) => known === name)?.[1] ?? this.#variable(name);
  }

  #variable(name: string): Known {
    if (name === "args") return { type: "object", shape: this.#around.shape };
    const { type = "value", members } = VARIABLES.find((variable) => variable.name === name) ?? {};
    return { type, members };
  }

  #sign(sign: string): void {
    switch (sign) {
      case ".":
        return;
      case "(": {
        const callee = this.#previous?.kind === "name" ? this.#previous.text : undefined;
        const object = callee === undefined ? undefined : this.#object;
        this.#open({ bracket: sign, callee, object });
        return;
      }
      case "[":
      case "{":
        this.#open({ bracket: sign, callee: undefined, object: sign === "[" ? this.#value : undefined });
        return;
      case ")":
      case "]":
      case "}":
        this.#value = this.#closed(this.#frames.pop());
        return;
      case ",": {
        const frame = this.#frames.at(-1);
        if (frame !== undefined) frame.commas++;
        this.#compared = frame?.compared;
        this.#value = undefined;
        return;
      }
      default:
        this.#compared = sign === "==" || sign === "!=" ? this.#value : undefined;
        this.#value = undefined;
    }
  }

  #open(frame: Pick<Frame, "bracket" | "callee" | "object">): void {
    const isList = frame.bracket === "[" && frame.object === undefined;
    const compared = isList ? this.#compared : undefined;
    this.#frames.push({ ...frame, compared, commas: 0, variable: undefined });
    this.#compared = compared;
    this.#value = undefined;
  }

  /** Returns the value of what a bracket ends. */
  #closed(frame: Frame | undefined): Known {
    if (frame === undefined) return UNKNOWN;
    const { bracket, callee, object } = frame;
    if (bracket === "{") return { type: "object" };
    if (bracket === "[") {
      if (object === undefined) return { type: "list", elements: this.#value };
      const { kind, content } = this.#previous ?? {};
      return kind === "text" ? memberOf(object, content ?? "") : elementOf(object);
    }
    if (callee === undefined) return this.#value ?? UNKNOWN;
    if (callee === "filter" && object !== undefined) return object;
    if (callee === "map" && object !== undefined) return { type: "list", elements: this.#value };
    return { type: [...CALLS, ...MACROS].find(({ name }) => name === callee)?.gives ?? "value" };
  }

  /** Variables of the macros around the place, the innermost first. */
  #scope(): readonly (readonly [name: string, value: Known])[] {
    return this.#frames.toReversed().flatMap(({ callee, object, commas, variable }) => {
      const isBound = callee !== undefined && isLoop(callee) && object !== undefined && commas > 0;
      return isBound && variable !== undefined ? [[variable, elementOf(object)] as const] : [];
    });
  }
}

const isLoop = (name: string): boolean => MACROS.some((macro) => macro.name === name && macro.on !== undefined);

function memberOf({ members, shape }: Known, name: string): Known {
  const fixed = members?.find((member) => member.name === name);
  if (fixed !== undefined) return { type: fixed.type };
  const inner = shape?.members.get(name);
  return inner === undefined ? UNKNOWN : knownFrom(inner);
}

function elementOf({ elements, shape }: Known): Known {
  if (elements !== undefined) return elements;
  return shape?.elements === undefined ? UNKNOWN : knownFrom(shape.elements);
}

function knownFrom(shape: ArgumentShape): Known {
  const types = new Set((shape.argument?.types ?? []).filter((type) => type !== "null").map((type) => TYPES[type]));
  const [type] = types.size === 1 ? types : [];
  return { type: type ?? "value", shape };
}

const textOption = (label: string): WhenOption => ({ label, kind: "text" });

const variableOption = (label: string, { type }: Known): WhenOption => ({
  label,
  kind: "variable",
  detail: type,
  help: "element of the list",
});

function memberOption(label: string, shape: ArgumentShape): WhenOption {
  const { types = [], description } = shape.argument ?? {};
  return {
    label,
    kind: "member",
    ...(types.length > 0 && { detail: types.join(" or ") }),
    ...(description !== undefined && { help: description }),
  };
}

const callOption = (call: WhenCall): WhenOption => ({
  label: call.name,
  kind: call.on === "list" && isLoop(call.name) ? "macro" : "function",
  detail: signatureOf(call).slice(signatureOf(call).indexOf("(")),
  help: `${signatureOf(call)}\n${call.help}`,
  takes: call.takes.filter((name) => !name.endsWith("?")),
});

/** Writes a call that takes its value before a dot as a function of it. */
function asFunction({ on, takes, ...call }: WhenCall): WhenCall {
  return on === undefined ? { ...call, takes } : { ...call, takes: [on, ...takes] };
}

const TOP_OPTIONS: readonly WhenOption[] = [
  ...VARIABLES.flatMap(({ name, members, type, help }): readonly WhenOption[] =>
    members === undefined
      ? [{ label: name, kind: "variable", detail: type, help }]
      : members.map((member) => ({
          label: `${name}.${member.name}`,
          kind: "variable",
          detail: member.type,
          help: member.help,
        })),
  ),
  ...[...MACROS, ...CALLS]
    .filter(({ on, isBoth, isIdle }) => (on === undefined || isBoth) && !isIdle)
    .map((call) => callOption(asFunction(call))),
  ...["true", "false", "null"].map((label): WhenOption => ({ label, kind: "word" })),
];

/** Lists members of a value, then what can be called on it. */
function membersOf({ type, members = [], shape }: Known): readonly WhenOption[] {
  const fits = ({ on }: WhenCall): boolean =>
    on !== undefined &&
    (type === "value" || on === type || (on === "time" && type === "duration") || isSized(on, type));
  return [
    ...members.map(({ name, type: detail, help }): WhenOption => ({ label: name, kind: "member", detail, help })),
    ...[...(shape?.members ?? [])]
      .filter(([name]) => IDENTIFIER.test(name))
      .map(([name, inner]) => memberOption(name, inner)),
    ...(members.length > 0 ? [] : [...MACROS, ...CALLS].filter(fits).map(callOption)),
  ];
}

/** Tests for a call on any value, which counts what a text, list or object has. */
const isSized = (on: WhenType, type: WhenType): boolean => on === "value" && ["text", "list", "object"].includes(type);
