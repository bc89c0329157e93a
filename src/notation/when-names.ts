/**
 * Names that expressions may use, with what people are told of them. The compiler takes its names and arities from here, and the
 * dashboard's editor completes them.
 */

/** Kind of a value, as people read it. */
export type WhenType = "text" | "number" | "bool" | "list" | "object" | "time" | "duration" | "type" | "value";

/** A variable of expressions, or a member of one. */
export interface WhenVariable {
  readonly name: string;
  readonly type: WhenType;
  readonly help: string;
  /** Its members, if they are fixed. */
  readonly members?: readonly WhenVariable[];
}

/** A function or macro of expressions. */
export interface WhenCall {
  readonly name: string;
  /** Kind of the value before the dot: `text.trim()`. Absent: it is written `name(…)`. */
  readonly on?: WhenType;
  /** True if it is written in both ways. */
  readonly isBoth?: boolean;
  /** Arguments in brackets; the name of an optional one ends in `?`. */
  readonly takes: readonly string[];
  readonly gives: WhenType;
  readonly help: string;
  /** True if it says nothing in these expressions and is there for those of other programs. */
  readonly isIdle?: boolean;
}

/** Every variable. */
export const WHEN_VARIABLES = [
  { name: "args", type: "object", help: "arguments of the call, as `argument` rules read them" },
  { name: "metadata", type: "object", help: "metadata as the caller sent it" },
  {
    name: "action",
    type: "object",
    help: "the action that is decided",
    members: [
      { name: "type", type: "text", help: "kind of action, in the form in which names compare" },
      { name: "content", type: "text", help: "content of the action, in the caller's words" },
      { name: "tool", type: "text", help: "name of the tool" },
    ],
  },
  {
    name: "agent",
    type: "object",
    help: "the acting agent",
    members: [
      { name: "id", type: "text", help: "id of the agent" },
      { name: "name", type: "text", help: "name of the agent" },
      { name: "trust", type: "number", help: "trust of the agent, 0 to 100" },
      { name: "departments", type: "list", help: "ids of the agent's departments" },
      { name: "framework", type: "text", help: "framework of the agent" },
    ],
  },
  {
    name: "principal",
    type: "object",
    help: "the principal on whose behalf the agent acts",
    members: [{ name: "id", type: "text", help: "id of the principal" }],
  },
  {
    name: "plan",
    type: "object",
    help: "the intent contracts that cover the action",
    members: [{ name: "state", type: "text", help: "`none`, `inside` or `outside`" }],
  },
  {
    name: "session",
    type: "object",
    help: "the session in which the agent acts",
    members: [{ name: "id", type: "text", help: "id of the session" }],
  },
  {
    name: "tool",
    type: "object",
    help: "the tool that is called",
    members: [{ name: "registered", type: "bool", help: "true if the tool is registered" }],
  },
  { name: "now", type: "time", help: "time of the decision" },
] as const satisfies readonly WhenVariable[];

/** Every macro: a call with a variable of its own, or with a member that may be missing. */
export const WHEN_MACROS = [
  { name: "has", takes: ["member"], gives: "bool", help: "true if a member is there: `has(args.name)`" },
  {
    name: "all",
    on: "list",
    takes: ["x", "condition"],
    gives: "bool",
    help: "true if the condition holds for each element",
  },
  {
    name: "exists",
    on: "list",
    takes: ["x", "condition"],
    gives: "bool",
    help: "true if the condition holds for an element",
  },
  {
    name: "exists_one",
    on: "list",
    takes: ["x", "condition"],
    gives: "bool",
    help: "true if the condition holds for exactly one element",
  },
  {
    name: "filter",
    on: "list",
    takes: ["x", "condition"],
    gives: "list",
    help: "the elements for which the condition holds",
  },
  { name: "map", on: "list", takes: ["x", "value"], gives: "list", help: "the value for each element" },
] as const satisfies readonly WhenCall[];

/** Every function. */
export const WHEN_CALLS = [
  {
    name: "size",
    on: "value",
    isBoth: true,
    takes: [],
    gives: "number",
    help: "number of characters, elements or members",
  },
  { name: "int", takes: ["value"], gives: "number", help: "whole number of a number, a text or a time" },
  { name: "double", takes: ["value"], gives: "number", help: "number of a text, or of a whole number" },
  { name: "string", takes: ["value"], gives: "text", help: "text of a single value" },
  { name: "bool", takes: ["text"], gives: "bool", help: "truth of the text `true` or `false`" },
  { name: "timestamp", takes: ["text"], gives: "time", help: "time of a text such as `2026-01-31T08:00:00Z`" },
  {
    name: "duration",
    takes: ["text"],
    gives: "duration",
    help: 'length of time: `duration("24h")`, `duration("90m")`',
  },
  { name: "type", takes: ["value"], gives: "type", help: "type of a value: `type(args.x) == string`" },
  { name: "dyn", takes: ["value"], gives: "value", help: "the value itself", isIdle: true },
  { name: "contains", on: "text", takes: ["part"], gives: "bool", help: "true if the text has the part" },
  { name: "startsWith", on: "text", takes: ["start"], gives: "bool", help: "true if the text begins so" },
  { name: "endsWith", on: "text", takes: ["end"], gives: "bool", help: "true if the text ends so" },
  { name: "matches", on: "text", takes: ["pattern"], gives: "bool", help: "true if an RE2 pattern in quotes is found" },
  { name: "charAt", on: "text", takes: ["index"], gives: "text", help: "character at an index from 0" },
  { name: "indexOf", on: "text", takes: ["part", "from?"], gives: "number", help: "index of a part, -1 without one" },
  { name: "lastIndexOf", on: "text", takes: ["part", "from?"], gives: "number", help: "index of the last such part" },
  { name: "lowerAscii", on: "text", takes: [], gives: "text", help: "the text with A to Z in lower case" },
  { name: "upperAscii", on: "text", takes: [], gives: "text", help: "the text with a to z in upper case" },
  { name: "replace", on: "text", takes: ["old", "new", "most?"], gives: "text", help: "the text with parts replaced" },
  { name: "split", on: "text", takes: ["separator", "most?"], gives: "list", help: "the parts between separators" },
  { name: "substring", on: "text", takes: ["from", "to?"], gives: "text", help: "the part between two indexes from 0" },
  { name: "trim", on: "text", takes: [], gives: "text", help: "the text without blanks around it" },
  { name: "join", on: "list", takes: ["separator?"], gives: "text", help: "one text of a list of texts" },
  { name: "getFullYear", on: "time", takes: ["zone?"], gives: "number", help: "the year" },
  { name: "getMonth", on: "time", takes: ["zone?"], gives: "number", help: "the month, 0 to 11" },
  { name: "getDate", on: "time", takes: ["zone?"], gives: "number", help: "the day of the month, 1 to 31" },
  { name: "getDayOfMonth", on: "time", takes: ["zone?"], gives: "number", help: "the day of the month, 0 to 30" },
  { name: "getDayOfWeek", on: "time", takes: ["zone?"], gives: "number", help: "the day of the week, 0 for Sunday" },
  { name: "getDayOfYear", on: "time", takes: ["zone?"], gives: "number", help: "the day of the year, 0 to 365" },
  {
    name: "getHours",
    on: "time",
    takes: ["zone?"],
    gives: "number",
    help: 'the hour, 0 to 23, in a zone such as "Europe/Berlin"',
  },
  { name: "getMinutes", on: "time", takes: ["zone?"], gives: "number", help: "the minute, 0 to 59" },
  { name: "getSeconds", on: "time", takes: ["zone?"], gives: "number", help: "the second, 0 to 59" },
  { name: "getMilliseconds", on: "time", takes: ["zone?"], gives: "number", help: "the millisecond, 0 to 999" },
  { name: "sum", takes: ["list"], gives: "number", help: "total of a list of numbers, exact in decimals" },
  {
    name: "fold",
    takes: ["text"],
    gives: "text",
    help: "the form in which other rules compare: without case and blanks around",
  },
  { name: "date", takes: ["text"], gives: "time", help: "time of a date, or of a date and time without zone, in UTC" },
  { name: "host", takes: ["url"], gives: "text", help: "host of an absolute URL, in lower case" },
  { name: "email_domain", takes: ["text"], gives: "text", help: "domain of an e-mail address, in lower case" },
  { name: "path_inside", takes: ["path", "folder"], gives: "bool", help: "true if a path is the folder or lies in it" },
  {
    name: "in_list",
    takes: ["text", "name"],
    gives: "bool",
    help: "true if a named list of the workspace has the text",
  },
] as const satisfies readonly WhenCall[];

/** Names of functions. */
export type WhenCallName = (typeof WHEN_CALLS)[number]["name"];

/** Writes how a function or macro is called, and the kind of value that it gives. */
export function signatureOf({ name, on, takes, gives }: WhenCall): string {
  return `${on === undefined ? "" : `${on}.`}${name}(${takes.join(", ")}) → ${gives}`;
}

/** Fewest and most arguments of a call, the value before the dot included. */
export function arityOf({ on, takes }: WhenCall): { readonly least: number; readonly most: number } {
  const receiver = on === undefined ? 0 : 1;
  const needed = takes.filter((name) => !name.endsWith("?")).length;
  return { least: receiver + needed, most: receiver + takes.length };
}
