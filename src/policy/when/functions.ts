import { arityOf, WHEN_CALLS, type WhenCall, type WhenCallName } from "../../notation/when-names.ts";
import { DecimalTotal, millionthsFrom } from "../decimal.ts";
import { compilePattern, type PatternResult, shortened } from "../patterns.ts";
import { doubleFrom, intFrom, isNumber } from "./numbers.ts";
import { emailDomainOf, hostOf, pathInside } from "./places.ts";
import type { Run } from "./run.ts";
import {
  charAt,
  containsText,
  endsWithText,
  foldText,
  indexOf,
  isText,
  join,
  lastIndexOf,
  lowerAscii,
  replace,
  sizeOfText,
  split,
  startsWithText,
  substring,
  trimText,
  upperAscii,
} from "./text.ts";
import { dateFrom, durationValueFrom, partOf, textOfDuration, textOfTime, timestampFrom, zoneFrom } from "./time.ts";
import {
  Duration,
  Fault,
  isList,
  isMap,
  keysOf,
  Timestamp,
  TypeName,
  typeNameOf,
  type Value,
  wordOf,
} from "./values.ts";

/** Applies a function to its arguments, the receiver first; none is a `Fault`. `site`: the call, for an error. */
export type Apply = (run: Run, args: readonly Value[], site: string) => Value;

/** Surroundings of a function when its rule is published. */
export interface WhenTools {
  /** Checks an RE2 expression that heeds case. */
  readonly checkPattern: (pattern: string) => PatternResult;
  /** Tests a text against a list of the workspace at the action's place in the log; undefined for a list that does not exist. */
  readonly findList?: ((name: string) => ListTest | undefined) | undefined;
}

/** Tests whether a list of the workspace has a text; undefined for a text that the list's kind cannot read. */
export type ListTest = (run: Run, text: string) => boolean | undefined;

/** Working of a function. */
interface Working {
  readonly apply: Apply;
  /** Argument that is written as a text in quotes and checked at publish. */
  readonly literal?: {
    readonly at: number;
    /** Makes the function of it, or returns the rest of a sentence that says why it cannot. */
    readonly bind: (text: string, tools: WhenTools) => Apply | string;
  };
}

/** A function that expressions call. */
export interface WhenFunction extends Working {
  /** How it is called: `x.f(y)`, `f(x, y)`, or both. */
  readonly form: "method" | "function" | "both";
  /** Arguments, the receiver included. */
  readonly least: number;
  readonly most: number;
}

/** Builds a function whose receiver and arguments are texts. */
const onTexts = (apply: (run: Run, texts: readonly string[]) => Value): Working => ({
  apply: (run, args, site) => {
    const other = args.find((arg) => !isText(arg));
    if (other !== undefined) return new Fault(site, `reads ${wordOf(other)} where a text is needed`);
    return apply(run, args as readonly string[]);
  },
});

/** Builds a method of a text with an argument that may be missing. */
const onText = (
  /** Arguments from the receiver on that are texts. */
  texts: number,
  apply: (run: Run, args: readonly Value[], site: string) => Value,
): Working => ({
  apply: (run, args, site) => {
    const other = args.slice(0, texts).find((arg) => !isText(arg));
    if (other !== undefined) return new Fault(site, `reads ${wordOf(other)} where a text is needed`);
    return apply(run, args, site);
  },
});

/** Builds a function of one argument. */
const ofOne = (apply: (value: Value, site: string) => Value): Working => ({
  apply: (run, [value = null], site) => {
    if (typeof value === "string") run.reads(value.length);
    return apply(value, site);
  },
});

const size: Working = {
  apply: (run, [value = null], site) => {
    if (isText(value)) return sizeOfText(run, value);
    if (isList(value)) return BigInt(value.length);
    if (!isMap(value)) return new Fault(site, `counts ${wordOf(value)}; \`size\` takes a text, a list or an object`);
    const keys = keysOf(value);
    run.take(keys.length);
    return BigInt(keys.length);
  },
};

const boolFrom = (value: Value, site: string): Value => {
  if (typeof value === "boolean") return value;
  if (!isText(value)) return new Fault(site, `converts ${wordOf(value)}; \`bool\` takes a text`);
  if (["true", "True", "TRUE", "t", "1"].includes(value)) return true;
  if (["false", "False", "FALSE", "f", "0"].includes(value)) return false;
  return new Fault(site, "reads a text that is neither `true` nor `false`");
};

const textFrom = (value: Value, site: string): Value => {
  if (isText(value)) return value;
  if (typeof value === "boolean" || isNumber(value)) return String(value);
  if (value instanceof Timestamp) return textOfTime(value);
  if (value instanceof Duration) return textOfDuration(value);
  return new Fault(site, `converts ${wordOf(value)}; \`string\` takes a single value`);
};

const sum: Working = {
  apply: (run, [list = null], site) => {
    if (!isList(list)) return new Fault(site, `adds ${wordOf(list)}; \`sum\` takes a list of numbers`);
    run.take(list.length);
    const total = new DecimalTotal();
    for (const amount of list) {
      if (!isNumber(amount)) return new Fault(site, `adds ${wordOf(amount)} where a number is needed`);
      const millionths = millionthsFrom(Number(amount));
      if (millionths === undefined) {
        return new Fault(site, "adds a number with more than six places or beyond 999,999,999");
      }
      total.add(millionths);
    }
    return total.value;
  },
};

const matches: Working = {
  apply: () => false,
  literal: {
    at: 1,
    bind: (pattern, { checkPattern }) => {
      const checked = checkPattern(pattern);
      if (checked.kind === "invalid") return `\`${shortened(pattern)}\` ${checked.message}`;
      let compiled: ReturnType<typeof compilePattern> | undefined;
      return (run, [text = null], site) => {
        if (!isText(text)) return new Fault(site, `searches ${wordOf(text)} where a text is needed`);
        run.take(checked.size * Math.max(text.length, 1));
        compiled ??= compilePattern(pattern);
        return compiled.found(text);
      };
    },
  },
};

/** Name of a list of the workspace. */
const LIST_NAME = /^[a-z0-9._-]{1,63}$/;

const inList: Working = {
  apply: () => false,
  literal: {
    at: 1,
    bind: (name, { findList }) => {
      if (!LIST_NAME.test(name)) return `\`${shortened(name)}\` is not the name of a list`;
      const test = findList?.(name);
      if (test === undefined) return `there is no list \`${name}\``;
      return (run, [text = null], site) => {
        if (!isText(text)) return new Fault(site, `looks up ${wordOf(text)} where a text is needed`);
        run.reads(text.length);
        return test(run, text) ?? new Fault(site, `looks up a text that the list \`${name}\` cannot compare`);
      };
    },
  },
};

const part = (name: string): Working => ({
  apply: (run, [value = null], site) => partOf(run, name, value, undefined, site),
  literal: {
    at: 1,
    bind: (text) => {
      const zone = zoneFrom(text);
      if (zone === undefined) return `there is no time zone \`${shortened(text)}\``;
      return (run, [value = null], site) => partOf(run, name, value, zone, site);
    },
  },
});

function onPlace(read: (run: Run, text: string, site: string) => Value): Working {
  return {
    apply: (run, [text = null], site) =>
      isText(text) ? read(run, text, site) : new Fault(site, `reads ${wordOf(text)} where a text is needed`),
  };
}

const WORKINGS: Readonly<Record<WhenCallName, Working>> = {
  size,
  int: ofOne(intFrom),
  double: ofOne(doubleFrom),
  string: ofOne(textFrom),
  bool: ofOne(boolFrom),
  timestamp: ofOne(timestampFrom),
  duration: ofOne(durationValueFrom),
  type: ofOne((value) => new TypeName(typeNameOf(value))),
  dyn: ofOne((value) => value),
  contains: onTexts((run, [text = "", needle = ""]) => containsText(run, text, needle)),
  startsWith: onTexts((run, [text = "", needle = ""]) => startsWithText(run, text, needle)),
  endsWith: onTexts((run, [text = "", needle = ""]) => endsWithText(run, text, needle)),
  matches,
  charAt: onText(1, (run, [text, at = null], site) => charAt(run, text as string, at, site)),
  indexOf: onText(2, (run, [text, needle, from], site) => indexOf(run, text as string, needle as string, from, site)),
  lastIndexOf: onText(2, (run, [text, needle, from], site) =>
    lastIndexOf(run, text as string, needle as string, from, site),
  ),
  lowerAscii: onTexts((run, [text = ""]) => lowerAscii(run, text)),
  upperAscii: onTexts((run, [text = ""]) => upperAscii(run, text)),
  replace: onText(3, (run, [text, old, by, most], site) =>
    replace(run, text as string, old as string, by as string, most, site),
  ),
  split: onText(2, (run, [text, separator, most], site) => split(run, text as string, separator as string, most, site)),
  substring: onText(1, (run, [text, from = null, to], site) => substring(run, text as string, from, to, site)),
  trim: onTexts((run, [text = ""]) => trimText(run, text)),
  join: {
    apply: (run, [list = null, separator = ""], site) => {
      if (!isText(separator)) return new Fault(site, `joins by ${wordOf(separator)} where a text is needed`);
      return join(run, list, separator, site);
    },
  },
  getFullYear: part("getFullYear"),
  getMonth: part("getMonth"),
  getDate: part("getDate"),
  getDayOfMonth: part("getDayOfMonth"),
  getDayOfWeek: part("getDayOfWeek"),
  getDayOfYear: part("getDayOfYear"),
  getHours: part("getHours"),
  getMinutes: part("getMinutes"),
  getSeconds: part("getSeconds"),
  getMilliseconds: part("getMilliseconds"),
  sum,
  fold: onTexts((run, [text = ""]) => foldText(run, text)),
  date: ofOne(dateFrom),
  host: onPlace(hostOf),
  email_domain: onPlace(emailDomainOf),
  path_inside: {
    apply: (run, [path = null, folder = null], site) => {
      if (!isText(path) || !isText(folder)) return new Fault(site, "compares something else than two paths");
      return pathInside(run, path, folder, site);
    },
  },
  in_list: inList,
};

/** Every function of expressions, by name. */
export const WHEN_FUNCTIONS: ReadonlyMap<string, WhenFunction> = new Map(
  WHEN_CALLS.map((call): [string, WhenFunction] => [
    call.name,
    { ...arityOf(call), form: formOf(call), ...WORKINGS[call.name] },
  ]),
);

function formOf({ on, isBoth = false }: WhenCall): WhenFunction["form"] {
  if (isBoth) return "both";
  return on === undefined ? "function" : "method";
}
