import type { JsonValue } from "@bufbuild/protobuf";
import { Checks } from "../../../src/policy/checks.ts";
import { checkPattern } from "../../../src/policy/patterns.ts";
import { compileWhen, type WhenResult } from "../../../src/policy/when/compile-when.ts";
import { contextFrom } from "../harness.ts";
import { type Draw, drawFrom, randomArgs, randomWhen } from "./random-when.ts";

/** Compiles with any pattern. */
export const PATTERN_TOOLS = { checkPattern: (pattern: string) => checkPattern(pattern, { ignoreCase: false }) };
const long = (length: number, text = "a"): string => text.repeat(Math.ceil(length / text.length)).slice(0, length);

const TEXTS = [
  long(300),
  long(60_000),
  long(1_000_000),
  `b${long(5_000)}`,
  `${long(5_000)}b`,
  long(40_000, "é"),
  long(40_000, "😁"),
  long(3_000, "ﷺ"),
  long(5_000, "a\u0301"),
  long(9_000, " "),
];
/** Expressions that cost as much as their steps allow. */
export const HOSTILE: readonly string[] = [
  'args.t.replace("a", "aaaaaaaaaa").replace("a", "aaaaaaaaaa").replace("a", "aaaaaaaaaa").replace("a", "aaaaaaaaaa").size() > 0',
  'args.t.replace("", "ab").replace("", "ab").replace("", "ab").contains("c")',
  "args.t.contains(args.u)",
  "args.t.indexOf(args.u) > 0 || args.t.lastIndexOf(args.u) > 0",
  "args.t.replace(args.u, args.t).contains(args.u)",
  'args.t.split("").size() > 5 || args.t.split("a").join(args.u).contains("x")',
  "args.t.split(args.u).map(x, x + args.u).join(args.u) == args.t",
  "fold(args.t) == fold(args.u) || fold(args.t + args.u).contains(args.u)",
  'args.t.matches("(a|aa)+$") || args.u.matches("(a*)*b") || args.t.matches("(a?){30}a{30}")',
  "args.l.all(x, args.l.all(y, x == y))",
  "args.l.exists(x, args.l.map(y, string(x) + string(y)).size() > args.l.size())",
  "args.l.map(x, args.l).map(x, x + args.l).size() > 1",
  "(args.l + args.l + args.l + args.l) == (args.l + args.l + args.l + args.l)",
  "args.l.filter(x, x in args.l).size() == args.l.size()",
  "args.d == args.d || args.d in args.l",
  'args.l.all(x, now.getHours("Europe/Berlin") > 25 || now.getDayOfYear("Asia/Kathmandu") > 1)',
  'args.l.all(x, host("https://" + args.u + "/") == "a") || email_domain(args.t) == "b"',
  'path_inside(args.t, args.u) || path_inside(args.t.replace("a", "../"), "/")',
  "sum(args.l) > 1 || sum(args.l.map(x, sum(args.l))) > 1",
  "args.l.all(x, {x: args.l}[x] == args.l)",
  'args.l.all(x, args.u.substring(0, 250).size() == 1 || host("https://" + args.u.substring(0, 250)) != "a")',
  'args.l.all(x, email_domain("a@" + args.u.substring(0, 250)) != "a")',
  "args.o.all(k, args.o.all(m, args.o[k] == args.o[m]))",
  "args.t.charAt(int(args.n)) == args.t.substring(int(args.n)) || args.t.lowerAscii().upperAscii().trim() == args.u",
  "double(args.t) > 1.0 || int(args.t) > 1 || timestamp(args.t) > now || duration(args.t) > duration(args.u)",
];

function deep(levels: number): JsonValue {
  let value: JsonValue = "x";
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

/** Draws arguments for them: long texts, long lists, large objects, deep values. */
export function hostileArgs(from: Draw) {
  const count = [10, 400, 20_000][from(3)] ?? 10;
  return {
    ...randomArgs(from),
    t: TEXTS[from(TEXTS.length)] as string,
    u: from(3) === 0 ? "a" : (TEXTS[from(TEXTS.length)] as string),
    l: Array.from({ length: count }, (_, index) => [index, "a", 1, `${index}`][from(4)] as JsonValue),
    o: Object.fromEntries(Array.from({ length: Math.min(count, 5_000) }, (_, index) => [`k${index}`, long(50)])),
    d: deep(from(2) === 0 ? 100 : 100_000),
  };
}

/** A drawn expression with drawn arguments. */
export interface HostileCase {
  readonly expression: string;
  /** Evaluates it. Throws what the evaluation throws. */
  judge(): { readonly result: WhenResult; readonly stepsLeft: number };
}

/** Draws the case of a seed. Undefined if its expression does not compile. */
export function hostileCase(seed: number): HostileCase | undefined {
  const from = drawFrom(seed);
  const expression = from(2) === 0 ? (HOSTILE[from(HOSTILE.length)] as string) : randomWhen(from);
  const compiled = compileWhen(expression, PATTERN_TOOLS);
  if (compiled.kind === "invalid") return undefined;
  const args = hostileArgs(from);
  return {
    expression,
    judge() {
      const checks = new Checks();
      const result = compiled.when.judge(contextFrom({ arguments: args, metadata: args, checks }));
      return { result, stepsLeft: checks.when.left };
    },
  };
}
