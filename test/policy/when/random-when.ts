import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Draws a whole number from 0 to below a bound. */
export type Draw = (below: number) => number;

/** Creates the numbers of a seed (mulberry32): fast-check's own draws take longer than what they test. */
export function drawFrom(seed: number): Draw {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

const TEXTS = [
  "",
  "a",
  "b",
  "ab",
  "aab",
  "Abc",
  "€ 5",
  "x😁y",
  "10",
  "-2.5",
  "2026-01-31",
  "2026-01-31T08:00:00Z",
  "90m",
  "a/../b",
  "/w/a",
  "https://a.example/x",
  "me@b.example",
  "true",
];
const NAMES = ["n", "i", "s", "t", "b", "l", "o", "m", "d", "missing"];
const NUMBERS = [0, 1, -1, 2, 2.5, 10, 0.1, 1e300, 3, -7, 500, 9_007_199_254_740_992, 1e-7, 999_999_999, 0.125];

const pick = <T>(from: Draw, items: readonly T[]): T => items[from(items.length)] as T;
const chance = (from: Draw, of: number): boolean => from(of) === 0;

/** Draws the arguments that random expressions read. */
export function randomArgs(from: Draw): JsonObject {
  const args: Record<string, JsonValue> = {
    n: pick(from, NUMBERS),
    i: from(26) - 5,
    s: pick(from, TEXTS),
    t: pick(from, TEXTS),
    b: from(2) === 0,
    l: Array.from({ length: from(5) }, () => scalar(from)),
    m: Array.from({ length: from(4) }, () => ({
      n: pick(from, NUMBERS),
      s: pick(from, TEXTS),
      ...(chance(from, 3) && { i: null }),
    })),
    o: { n: pick(from, NUMBERS), s: pick(from, TEXTS), deep: { s: "x", none: null } },
    d: pick(from, ["2026-01-31", "2026-01-31T08:00:00Z", "2026-02-30", "tomorrow"]),
  };
  for (const name of Object.keys(args)) if (chance(from, 12)) args[name] = chance(from, 2) ? null : anything(from);
  return args;
}

const scalar = (from: Draw): JsonValue =>
  pick<JsonValue>(from, [...NUMBERS, ...TEXTS, true, false, null, "a", "b", 1, 2]);
const anything = (from: Draw): JsonValue =>
  pick<JsonValue>(from, [[], {}, [1, 2], { s: "a" }, "a", 5, true, ["a", "b"]]);

const quote = (text: string): string => JSON.stringify(text);

/** Draws an expression that is mostly true or false. */
export function randomWhen(from: Draw, depth = 3, variables: readonly string[] = []): string {
  const bool = (): string => randomWhen(from, depth - 1, variables);
  const number = (): string => randomNumber(from, depth - 1, variables);
  const text = (): string => randomText(from, depth - 1, variables);
  const list = (): string => randomList(from, depth - 1, variables);
  const time = (): string => randomTime(from, depth - 1, variables);
  const any = (): string => randomAny(from, depth - 1, variables);
  if (depth <= 0)
    return pick(from, [
      "true",
      "false",
      "args.b",
      "args.n > 2",
      "has(args.o.s)",
      'args.s == "a"',
      "tool.registered",
      "has(args.missing)",
    ]);
  const makers: readonly (() => string)[] = [
    () => `${number()} ${pick(from, ["<", "<=", ">", ">=", "==", "!="])} ${number()}`,
    () => `${text()} ${pick(from, ["<", "<=", ">", ">=", "==", "!="])} ${text()}`,
    () => `${any()} ${pick(from, ["==", "!=", "<", ">"])} ${any()}`,
    () => `${time()} ${pick(from, ["<", ">=", "==", "!="])} ${time()}`,
    () => `(${bool()}) ${pick(from, ["&&", "||"])} (${bool()})`,
    () => `(${bool()}) ${pick(from, ["&&", "||"])} (${bool()}) ${pick(from, ["&&", "||"])} (${bool()})`,
    () => `!(${bool()})`,
    () => `((${bool()}) ? ${bool()} : ${bool()})`,
    () => `${any()} in ${list()}`,
    () => `${text()} in ${pick(from, ["args.o", "args", '{"a": 1, "b": null}'])}`,
    () =>
      `has(${pick(from, ["args.s", "args.missing", "args.o.s", "args.o.deep.none", "args.missing.x", "args.s.x", "metadata.k", "session.id"])})`,
    () => `${text()}.${pick(from, ["contains", "startsWith", "endsWith"])}(${text()})`,
    () => `${text()}.matches(${quote(pick(from, ["^a", "b$", "[0-9]+", "x.y", "(a|b)+"]))})`,
    () =>
      `${list()}.${pick(from, ["all", "exists", "exists_one"])}(x, ${randomWhen(from, depth - 1, [...variables, "x"])})`,
    () => `type(${any()}) == ${pick(from, ["int", "double", "string", "bool", "list", "map", "null_type", "type(1)"])}`,
    () => `path_inside(${text()}, ${text()})`,
    () => `bool(${text()})`,
  ];
  return pick(from, makers)();
}

function randomNumber(from: Draw, depth: number, variables: readonly string[]): string {
  const number = (): string => randomNumber(from, depth - 1, variables);
  const text = (): string => randomText(from, depth - 1, variables);
  if (depth <= 0)
    return pick(from, [
      "args.n",
      "args.i",
      "1",
      "2",
      "0",
      "2.5",
      "-3",
      "500",
      "1e300",
      "agent.trust",
      "args.o.n",
      ...variables,
    ]);
  const makers: readonly (() => string)[] = [
    () => `(${number()} ${pick(from, ["+", "-", "*", "/", "%"])} ${number()})`,
    () => `-(${number()})`,
    () => `size(${randomAny(from, depth - 1, variables)})`,
    () => `${pick(from, ["int", "double"])}(${randomAny(from, depth - 1, variables)})`,
    () => `${text()}.${pick(from, ["indexOf", "lastIndexOf"])}(${text()}${chance(from, 3) ? `, ${number()}` : ""})`,
    () => `sum(${randomList(from, depth - 1, variables)})`,
    () =>
      `${randomTime(from, depth - 1, variables)}.${pick(from, ["getHours", "getDate", "getFullYear", "getDayOfYear", "getMilliseconds", "getMonth", "getDayOfWeek"])}(${pick(from, ["", "", '"+02:00"', '"Europe/Berlin"'])})`,
    () => `duration(${text()}).${pick(from, ["getHours", "getSeconds", "getMilliseconds"])}()`,
    () => `${randomList(from, depth - 1, variables)}[${number()}]`,
  ];
  return pick(from, makers)();
}

function randomText(from: Draw, depth: number, variables: readonly string[]): string {
  const text = (): string => randomText(from, depth - 1, variables);
  const number = (): string => randomNumber(from, depth - 1, variables);
  if (depth <= 0)
    return pick(from, [
      "args.s",
      "args.t",
      "args.d",
      "args.o.s",
      "action.type",
      quote(pick(from, TEXTS)),
      ...variables,
    ]);
  const makers: readonly (() => string)[] = [
    () => `(${text()} + ${text()})`,
    () => `${text()}.${pick(from, ["lowerAscii", "upperAscii", "trim"])}()`,
    () => `${text()}.substring(${number()}${chance(from, 2) ? `, ${number()}` : ""})`,
    () => `${text()}.charAt(${number()})`,
    () => `${text()}.replace(${text()}, ${text()}${chance(from, 3) ? `, ${number()}` : ""})`,
    () => `string(${randomAny(from, depth - 1, variables)})`,
    () => `fold(${text()})`,
    () => `${pick(from, ["host", "email_domain"])}(${text()})`,
    () => `${text()}.split(${text()}${chance(from, 3) ? `, ${number()}` : ""}).join(${text()})`,
    () => `args.o[${text()}]`,
  ];
  return pick(from, makers)();
}

function randomList(from: Draw, depth: number, variables: readonly string[]): string {
  if (depth <= 0)
    return pick(from, [
      "args.l",
      "args.m",
      "[]",
      '["a", "b"]',
      "[1, 2.5, 3]",
      "args.m.map(y, y.n)",
      "args.o",
      "agent.departments",
    ]);
  const inner = [...variables, "y"];
  const makers: readonly (() => string)[] = [
    () => `[${randomAny(from, depth - 1, variables)}, ${randomAny(from, depth - 1, variables)}]`,
    () => `(${randomList(from, depth - 1, variables)} + ${randomList(from, depth - 1, variables)})`,
    () => `${randomText(from, depth - 1, variables)}.split(${randomText(from, depth - 1, variables)})`,
    () => `${randomList(from, 0, variables)}.filter(y, ${randomWhen(from, depth - 1, inner)})`,
    () => `${randomList(from, 0, variables)}.map(y, ${randomAny(from, depth - 1, inner)})`,
    () =>
      `${randomList(from, 0, variables)}.map(y, ${randomWhen(from, depth - 1, inner)}, ${randomAny(from, depth - 1, inner)})`,
  ];
  return pick(from, makers)();
}

function randomTime(from: Draw, depth: number, variables: readonly string[]): string {
  if (depth <= 0)
    return pick(from, [
      "now",
      "date(args.d)",
      "timestamp(args.d)",
      'timestamp("2026-01-31T08:00:00.5Z")',
      'date("2026-02-01")',
      "timestamp(1700000000)",
    ]);
  const makers: readonly (() => string)[] = [
    () =>
      `(${randomTime(from, depth - 1, variables)} ${pick(from, ["+", "-"])} duration(${quote(pick(from, ["24h", "90m", "1.5s", "-3h", "1h30m5ms", "200000h", "x"]))}))`,
    () => `date(${randomText(from, depth - 1, variables)})`,
    () => `timestamp(${randomText(from, depth - 1, variables)})`,
    () => `timestamp(int(${randomNumber(from, depth - 1, variables)}))`,
  ];
  return pick(from, makers)();
}

function randomAny(from: Draw, depth: number, variables: readonly string[]): string {
  const makers: readonly (() => string)[] = [
    () => randomNumber(from, depth, variables),
    () => randomText(from, depth, variables),
    () => randomList(from, depth, variables),
    () => (depth > 0 ? `(${randomWhen(from, depth, variables)})` : "args.b"),
    () => `args.${pick(from, NAMES)}`,
    () => randomTime(from, Math.min(depth, 1), variables),
    () =>
      pick(from, ["null", "{}", '{"a": 1}', "args.o", "{1: 2}", "args.m[0]", "args.l[0]", 'args["s"]', ...variables]),
  ];
  return pick(from, makers)();
}
