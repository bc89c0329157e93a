import { argumentPath } from "../../notation/argument-path.ts";
import type { EvaluationContext } from "../types.ts";
import { qualifiedName, readFrom } from "./check.ts";
import { type Apply, WHEN_FUNCTIONS, type WhenTools } from "./functions.ts";
import { compute, isNumber, negate, orderNumbers } from "./numbers.ts";
import { LimitPassed, type Run } from "./run.ts";
import { computeTimes } from "./time.ts";
import { type BinaryOperator, expressionOf, type Node, type NodeOf } from "./tree.ts";
import {
  Duration,
  Fault,
  isList,
  isMap,
  keysOf,
  type MapKey,
  memberOf,
  Timestamp,
  TypeName,
  type Value,
  wordOf,
} from "./values.ts";
import { MEMBERS, TYPE_VALUES, variableOf } from "./variables.ts";

/** A node made to run: spends one step, and those of the nodes below, and returns its value. */
export type Step = (run: Run) => Value;

/** Depth of values that are compared; deeper ones pass the limit, since a comparison calls itself. */
const MAX_COMPARED_DEPTH = 256;
const TOO_DEEP = new LimitPassed("it compares values that nest too deep");
/** Characters of a part of an expression that an error shows. */
const MAX_SITE = 120;

/** Compiles a checked tree. Expressions that `checkWhen` has problems with MUST NOT be compiled. */
export function closureOf(tree: Node, tools: WhenTools): Step {
  return new Compiler(tools).compile(tree, new Map());
}

/** Writes a node for an error, cut if it is long. */
function siteOf(node: Node): string {
  const text = expressionOf(node);
  return text.length > MAX_SITE ? `${text.slice(0, MAX_SITE)}…` : text;
}

/** Slots of the variables of macros. */
type Scope = ReadonlyMap<string, number>;

class Compiler {
  readonly #tools: WhenTools;

  constructor(tools: WhenTools) {
    this.#tools = tools;
  }

  compile(node: Node, scope: Scope): Step {
    switch (node.kind) {
      case "literal":
        return constant(node.value);
      case "name":
        return this.#name(node, scope);
      case "member":
        return this.#member(node, scope);
      case "has":
        return this.#has(node, scope);
      case "index":
        return this.#index(node, scope);
      case "list":
        return this.#list(node, scope);
      case "map":
        return this.#map(node, scope);
      case "unary":
        return this.#unary(node, scope);
      case "binary":
        return this.#binary(node, scope);
      case "logic":
        return this.#logic(node, scope);
      case "choice":
        return this.#choice(node, scope);
      case "call":
        return this.#call(node, scope);
      case "macro":
        return this.#macro(node, scope);
    }
  }

  #name({ name }: NodeOf<"name">, scope: Scope): Step {
    const slot = scope.get(name);
    if (slot !== undefined) {
      return (run) => {
        run.take(1);
        return run.slots[slot] ?? null;
      };
    }
    const read = variableOf(name);
    if (read === undefined) return constant(TYPE_VALUES.get(name) ?? null);
    return (run) => {
      run.take(1);
      return read(run.context);
    };
  }

  #member(node: NodeOf<"member">, scope: Scope): Step {
    const type = TYPE_VALUES.get(qualifiedName(node) ?? "");
    if (type !== undefined) return constant(type);
    const { object, name } = node;
    const fixed = object.kind === "name" && !scope.has(object.name) ? MEMBERS.get(object.name)?.get(name) : undefined;
    if (fixed !== undefined) {
      return (run) => {
        run.take(2);
        return fixed(run.context);
      };
    }
    const missing = missingFault(node, scope);
    const isArgument = object.kind === "name" && object.name === "args" && !scope.has("args");
    if (isArgument) {
      return (run) => {
        run.take(2);
        const args = run.context.arguments;
        return args !== undefined && Object.hasOwn(args, name) ? (args[name] ?? missing) : missing;
      };
    }
    const inner = this.compile(object, scope);
    const objectSite = siteOf(object);
    return (run) => {
      run.take(1);
      const value = inner(run);
      if (value instanceof Fault) return value;
      if (!isMap(value)) return new Fault(objectSite, `is ${wordOf(value)}, which has no members`, missing.argument);
      return memberOf(value, name) ?? nullOr(value, name, missing);
    };
  }

  #has({ object, name }: NodeOf<"has">, scope: Scope): Step {
    const inner = this.compile(object, scope);
    const objectSite = siteOf(object);
    return (run) => {
      run.take(1);
      const value = inner(run);
      if (value instanceof Fault) return value;
      if (!isMap(value)) return new Fault(objectSite, `is ${wordOf(value)}, which has no members`);
      return memberOf(value, name) != null;
    };
  }

  #index(node: NodeOf<"index">, scope: Scope): Step {
    const object = this.compile(node.object, scope);
    const key = this.compile(node.key, scope);
    const missing = missingFault(node, scope);
    const objectSite = siteOf(node.object);
    return (run) => {
      run.take(1);
      const value = object(run);
      if (value instanceof Fault) return value;
      const at = key(run);
      if (at instanceof Fault) return at;
      if (isList(value)) {
        if (!isNumber(at)) return new Fault(missing.subject, `indexes a list with ${wordOf(at)}`);
        return value[Number(at)] ?? (value[Number(at)] === null ? null : missing);
      }
      if (!isMap(value)) return new Fault(objectSite, `is ${wordOf(value)}, which has no members`, missing.argument);
      if (typeof at === "string") run.reads(at.length);
      return memberOf(value, at) ?? nullOr(value, at, missing);
    };
  }

  #list({ elements }: NodeOf<"list">, scope: Scope): Step {
    const steps = elements.map((element) => this.compile(element, scope));
    if (elements.every(({ kind }) => kind === "literal")) {
      const values = elements.map((element) => (element as NodeOf<"literal">).value);
      return (run) => {
        run.take(1 + values.length);
        return values;
      };
    }
    return (run) => {
      run.take(1);
      const values: Value[] = [];
      for (const step of steps) {
        const value = step(run);
        if (value instanceof Fault) return value;
        values.push(value);
      }
      return values;
    };
  }

  #map(node: NodeOf<"map">, scope: Scope): Step {
    const site = siteOf(node);
    const steps = node.entries.map(([key, value]) => [this.compile(key, scope), this.compile(value, scope)] as const);
    return (run) => {
      run.take(1);
      const map = new Map<MapKey, Value>();
      for (const [keyStep, valueStep] of steps) {
        const key = keyFrom(keyStep(run), site);
        if (key instanceof Fault) return key;
        const value = valueStep(run);
        if (value instanceof Fault) return value;
        if (typeof key === "string") run.reads(key.length);
        if (map.has(key)) return new Fault(site, "has a key twice");
        map.set(key, value);
      }
      return map;
    };
  }

  #unary(node: NodeOf<"unary">, scope: Scope): Step {
    const operand = this.compile(node.operand, scope);
    const site = siteOf(node.operand);
    if (node.operator === "-") {
      return (run) => {
        run.take(1);
        const value = operand(run);
        return value instanceof Fault ? value : negate(value, site);
      };
    }
    return (run) => {
      run.take(1);
      const value = operand(run);
      if (typeof value === "boolean") return !value;
      return value instanceof Fault ? value : notBoolean(site, value);
    };
  }

  #binary(node: NodeOf<"binary">, scope: Scope): Step {
    const left = this.compile(node.left, scope);
    const right = this.compile(node.right, scope);
    const both = valuesOf(left, right);
    const fault = mismatch(node, scope);
    switch (node.operator) {
      case "==":
      case "!=":
        return equality(node, left, both);
      case "<":
      case "<=":
      case ">":
      case ">=":
        return relation(node, left, both, fault);
      case "in":
        return both((run, value, container) => contained(run, value, container) ?? fault(value, container));
      default: {
        const { operator } = node;
        const site = siteOf(node);
        return both((run, one, other) => arithmetic(run, operator, one, other, site) ?? fault(one, other));
      }
    }
  }

  #logic({ operator, operands }: NodeOf<"logic">, scope: Scope): Step {
    const steps = operands.map((operand) => this.compile(operand, scope));
    const sites = operands.map(siteOf);
    const decides = operator === "||";
    return (run) => {
      run.take(1);
      let fault: Fault | undefined;
      for (let index = 0; index < steps.length; index++) {
        const value = (steps[index] as Step)(run);
        if (value === decides) return decides;
        if (value === !decides) continue;
        fault ??= value instanceof Fault ? value : notBoolean(sites[index] ?? "", value);
      }
      return fault ?? !decides;
    };
  }

  #choice({ test, yes, no }: NodeOf<"choice">, scope: Scope): Step {
    const [testStep, yesStep, noStep] = [this.compile(test, scope), this.compile(yes, scope), this.compile(no, scope)];
    const site = siteOf(test);
    return (run) => {
      run.take(1);
      const value = testStep(run);
      if (value === true) return yesStep(run);
      if (value === false) return noStep(run);
      return value instanceof Fault ? value : notBoolean(site, value);
    };
  }

  #call(node: NodeOf<"call">, scope: Scope): Step {
    const known = WHEN_FUNCTIONS.get(node.name);
    const site = siteOf(node);
    if (known === undefined) throw new Error(`an unchecked call of ${node.name}`);
    const literal = known.literal && node.args[known.literal.at];
    let apply: Apply = known.apply;
    if (literal?.kind === "literal" && typeof literal.value === "string") {
      const bound = known.literal?.bind(literal.value, this.#tools);
      if (bound === undefined || typeof bound === "string") throw new Error(`an unchecked argument of ${node.name}`);
      apply = bound;
    }
    const steps = node.args.map((arg) => this.compile(arg, scope));
    const [only] = steps;
    if (steps.length === 1 && only !== undefined) {
      return (run) => {
        run.take(1);
        const value = only(run);
        return value instanceof Fault ? value : apply(run, [value], site);
      };
    }
    return (run) => {
      run.take(1);
      const values: Value[] = [];
      for (const step of steps) {
        const value = step(run);
        if (value instanceof Fault) return value;
        values.push(value);
      }
      return apply(run, values, site);
    };
  }

  #macro(node: NodeOf<"macro">, scope: Scope): Step {
    const range = this.compile(node.range, scope);
    const rangeSite = siteOf(node.range);
    const own = Math.max(-1, ...scope.values()) + 1;
    const slots = new Map(scope).set(node.variable, own);
    const test =
      node.test === undefined ? undefined : { step: this.compile(node.test, slots), site: siteOf(node.test) };
    const result = node.result === undefined ? undefined : this.compile(node.result, slots);
    const loop = loopOf(node, test, result);
    return (run) => {
      run.take(1);
      const value = range(run);
      if (value instanceof Fault) return value;
      const elements = isList(value) ? value : isMap(value) ? keysOf(value) : undefined;
      if (elements === undefined) return new Fault(rangeSite, `is ${wordOf(value)} and no list`);
      return loop(run, elements, own);
    };
  }
}

const constant =
  (value: Value): Step =>
  (run) => {
    run.take(1);
    return value;
  };

/** Builds the error of a value that is not there, with the argument it is. */
function missingFault(node: Node, scope: Scope): Fault {
  const read = readFrom(node, new Set(scope.keys()));
  const argument = read?.variable === "args" ? argumentPath(read.path) : undefined;
  return new Fault(siteOf(node), "is missing", argument);
}

/** A written map may have a null member, which is there. */
const nullOr = (map: Value, key: Value, missing: Fault): Value =>
  map instanceof Map && memberOf(map, key) === null ? null : missing;

const notBoolean = (site: string, value: Value): Fault =>
  new Fault(site, `is ${wordOf(value)}, neither true nor false`);

function keyFrom(value: Value, site: string): MapKey | Fault {
  if (value instanceof Fault) return value;
  if (typeof value === "number" && Number.isInteger(value)) return BigInt(value);
  if (typeof value === "string" || typeof value === "bigint" || typeof value === "boolean") return value;
  return new Fault(site, `has ${wordOf(value)} as a key`);
}

type Combine = (run: Run, left: Value, right: Value) => Value;

/** Creates the step that evaluates both operands and combines them. */
const valuesOf =
  (left: Step, right: Step) =>
  (combine: Combine): Step =>
  (run) => {
    run.take(1);
    const one = left(run);
    if (one instanceof Fault) return one;
    const other = right(run);
    return other instanceof Fault ? other : combine(run, one, other);
  };

type Mismatch = (one: Value, other: Value) => Fault;

/** Creates the error of two values that an operator does not take. */
function mismatch({ operator, left, right }: NodeOf<"binary">, scope: Scope): Mismatch {
  const site = siteOf(left);
  const otherSite = siteOf(right);
  const read = readFrom(left, new Set(scope.keys()));
  const argument = read?.variable === "args" ? argumentPath(read.path) : undefined;
  return (one, other) =>
    new Fault(
      site,
      `is ${wordOf(one)} and \`${otherSite}\` ${wordOf(other)}, which \`${operator}\` does not take`,
      argument,
    );
}

/** Comparing with a number or text in the expression is what most rules do, so it has a step of its own. */
function equality(node: NodeOf<"binary">, left: Step, both: (combine: Combine) => Step): Step {
  const isEqual = node.operator === "==";
  const constantValue = node.right.kind === "literal" ? node.right.value : undefined;
  if (typeof constantValue === "string") {
    return (run) => {
      run.take(2);
      const value = left(run);
      if (typeof value === "string") {
        run.reads(Math.min(value.length, constantValue.length));
        return (value === constantValue) === isEqual;
      }
      return value instanceof Fault ? value : !isEqual;
    };
  }
  return both((run, one, other) => equalValues(run, one, other, 0) === isEqual);
}

function relation(node: NodeOf<"binary">, left: Step, both: (combine: Combine) => Step, fault: Mismatch): Step {
  const holds = HOLDS[node.operator] ?? (() => false);
  const constantValue = node.right.kind === "literal" ? node.right.value : undefined;
  if (typeof constantValue === "number" || typeof constantValue === "bigint") {
    const bound = Number(constantValue);
    return (run) => {
      run.take(2);
      const value = left(run);
      if (typeof value === "number") return holds(value - bound);
      if (typeof value === "bigint") return holds(orderNumbers(value, constantValue));
      return value instanceof Fault ? value : fault(value, constantValue);
    };
  }
  return both((run, one, other) => {
    const difference = ordered(run, one, other);
    return difference === undefined ? fault(one, other) : holds(difference);
  });
}

const HOLDS: Readonly<Partial<Record<BinaryOperator, (difference: number) => boolean>>> = {
  "<": (difference) => difference < 0,
  "<=": (difference) => difference <= 0,
  ">": (difference) => difference > 0,
  ">=": (difference) => difference >= 0,
};

/** Orders two values of a kind: below zero if the first is smaller; undefined if they have no order. */
function ordered(run: Run, left: Value, right: Value): number | undefined {
  if (isNumber(left)) return isNumber(right) ? orderNumbers(left, right) : undefined;
  if (typeof left === "string" && typeof right === "string") {
    run.reads(Math.min(left.length, right.length));
    return left < right ? -1 : left > right ? 1 : 0;
  }
  if (typeof left === "boolean" && typeof right === "boolean") return Number(left) - Number(right);
  const isTimes = left instanceof Timestamp && right instanceof Timestamp;
  const isDurations = left instanceof Duration && right instanceof Duration;
  return isTimes || isDurations ? orderNumbers(left.nanos, right.nanos) : undefined;
}

/** Tests whether two values are equal; those of different types are not. Numbers are equal across types. */
function equalValues(run: Run, left: Value, right: Value, depth: number): boolean {
  if (typeof left === "string" && typeof right === "string") {
    run.reads(Math.min(left.length, right.length));
    return left === right;
  }
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) {
    // biome-ignore lint/suspicious/noDoubleEquals: compares an int with a double exactly
    return isNumber(left) && isNumber(right) ? left == right : left === right;
  }
  if (depth > MAX_COMPARED_DEPTH) throw TOO_DEEP;
  if (isList(left)) return isList(right) && equalLists(run, left, right, depth);
  if (isMap(left)) return isMap(right) && equalMaps(run, left, right, depth);
  if (left instanceof Timestamp) return right instanceof Timestamp && left.nanos === right.nanos;
  if (left instanceof Duration) return right instanceof Duration && left.nanos === right.nanos;
  return left instanceof TypeName && right instanceof TypeName && left.name === right.name;
}

function equalLists(run: Run, left: readonly Value[], right: readonly Value[], depth: number): boolean {
  if (left.length !== right.length) return false;
  for (let index = 0; index < left.length; index++) {
    run.take(1);
    if (!equalValues(run, left[index] ?? null, right[index] ?? null, depth + 1)) return false;
  }
  return true;
}

function equalMaps(run: Run, left: Value, right: Value, depth: number): boolean {
  if (!isMap(left) || !isMap(right)) return false;
  const keys = keysOf(left);
  const others = keysOf(right);
  run.take(keys.length + others.length);
  if (keys.length !== others.length) return false;
  for (const key of keys) {
    run.take(1);
    const other = memberOf(right, key);
    if (other === undefined || !equalValues(run, memberOf(left, key) ?? null, other, depth + 1)) return false;
  }
  return true;
}

/** Tests whether a list has a value, or a map a key; undefined for what has neither. */
function contained(run: Run, value: Value, container: Value): boolean | undefined {
  if (isList(container)) {
    for (const element of container) {
      run.take(1);
      if (equalValues(run, value, element, 0)) return true;
    }
    return false;
  }
  const isKey = typeof value === "string" || typeof value === "boolean" || isNumber(value);
  if (!isMap(container) || !isKey) return undefined;
  if (typeof value === "string") run.reads(value.length);
  return memberOf(container, value) != null;
}

function arithmetic(
  run: Run,
  operator: "+" | "-" | "*" | "/" | "%",
  left: Value,
  right: Value,
  site: string,
): Value | undefined {
  if (isNumber(left)) return isNumber(right) ? compute(operator, left, right, site) : undefined;
  if (operator === "+" && typeof left === "string" && typeof right === "string") {
    run.makesText(left.length + right.length);
    return left + right;
  }
  if (operator === "+" && isList(left) && isList(right)) {
    run.makesList(left.length + right.length);
    return [...left, ...right];
  }
  return operator === "+" || operator === "-" ? computeTimes(operator, left, right, site) : undefined;
}

type Loop = (run: Run, elements: readonly Value[], slot: number) => Value;
type Test = { readonly step: Step; readonly site: string };

function loopOf({ macro }: NodeOf<"macro">, test: Test | undefined, result: Step | undefined): Loop {
  switch (macro) {
    case "all":
      return quantifier(test, false);
    case "exists":
      return quantifier(test, true);
    case "exists_one":
      return (run, elements, slot) => {
        const found = passing(run, elements, slot, test);
        return found instanceof Fault ? found : found.length === 1;
      };
    case "filter":
      return (run, elements, slot) => passing(run, elements, slot, test);
    case "map":
      return (run, elements, slot) => mapped(run, elements, slot, test, result);
  }
}

/** Creates the loop of `all` or `exists`: an element that decides does so past errors of others. */
const quantifier =
  (test: Test | undefined, decides: boolean): Loop =>
  (run, elements, slot) => {
    let fault: Fault | undefined;
    for (const element of elements) {
      run.take(1);
      run.slots[slot] = element;
      const value = test?.step(run) ?? null;
      if (value === decides) return decides;
      if (value === !decides) continue;
      fault ??= value instanceof Fault ? value : notBoolean(test?.site ?? "", value);
    }
    return fault ?? !decides;
  };

/** Returns the elements for which a test is true. */
function passing(run: Run, elements: readonly Value[], slot: number, test: Test | undefined): readonly Value[] | Fault {
  const found: Value[] = [];
  for (const element of elements) {
    run.take(1);
    run.slots[slot] = element;
    const value = test === undefined ? true : test.step(run);
    if (value === true) found.push(element);
    else if (value !== false) return value instanceof Fault ? value : notBoolean(test?.site ?? "", value);
  }
  run.makesList(found.length);
  return found;
}

function mapped(
  run: Run,
  elements: readonly Value[],
  slot: number,
  test: Test | undefined,
  result: Step | undefined,
): Value {
  const found: Value[] = [];
  for (const element of elements) {
    run.take(1);
    run.slots[slot] = element;
    const isWanted = test === undefined ? true : test.step(run);
    if (isWanted instanceof Fault) return isWanted;
    if (isWanted === false) continue;
    if (isWanted !== true) return notBoolean(test?.site ?? "", isWanted);
    const value = result?.(run) ?? null;
    if (value instanceof Fault) return value;
    found.push(value);
  }
  run.makesList(found.length);
  return found;
}

/** Evaluates an expression in a context: its value, or the limit that it passes. MUST NOT throw. */
export function evaluateStep(step: Step, run: Run, context: EvaluationContext): Value | LimitPassed {
  try {
    return run.within(context, step);
  } catch (error) {
    if (error instanceof LimitPassed) return error;
    // Arguments may nest deeper than any stack.
    if (error instanceof RangeError) return TOO_DEEP;
    throw error;
  }
}
