/** One step of an argument path: into a member, or (`null`) into every element of an array. */
export type ArgumentStep = string | null;

// A name that needs no quotes: no dot, bracket or quote, and no blank at either end.
const PLAIN = /^(?!\s)[^.[\]"]+(?<!\s)$/;
const NAME = /[^.[\]"]+/y;
const QUOTED = /\["(?:[^"\\]|\\.)*"\]/y;

/** Appends a member's name to a path; a name that could be read as something else is quoted: `["a.b"]`. */
export function memberPath(parent: string, name: string): string {
  if (!PLAIN.test(name)) return `${parent}[${JSON.stringify(name)}]`;
  return parent === "" ? name : `${parent}.${name}`;
}

/** Appends the step into every element of an array. */
export function elementPath(parent: string): string {
  return `${parent}[]`;
}

/** Writes steps as a path, the reverse of `argumentSteps`. */
export function argumentPath(steps: readonly ArgumentStep[]): string {
  return steps.reduce<string>((path, step) => (step === null ? elementPath(path) : memberPath(path, step)), "");
}

/** Reads a path; undefined when it is none. A path MUST begin with a member. */
export function argumentSteps(path: string): readonly ArgumentStep[] | undefined {
  const steps: ArgumentStep[] = [];
  let at = 0;
  while (at < path.length) {
    const next = stepAt(path, at);
    if (next === undefined) return undefined;
    steps.push(next.step);
    at = next.end;
  }
  return steps.length === 0 || steps[0] === null ? undefined : steps;
}

function stepAt(path: string, at: number): { step: ArgumentStep; end: number } | undefined {
  if (path.startsWith("[]", at)) return { step: null, end: at + 2 };
  if (path[at] === "[") return quotedAt(path, at);
  const start = path[at] === "." && at > 0 ? at + 1 : at;
  if (start === at && at > 0) return undefined;
  NAME.lastIndex = start;
  const name = NAME.exec(path)?.[0];
  return name === undefined ? undefined : { step: name, end: start + name.length };
}

function quotedAt(path: string, at: number): { step: string; end: number } | undefined {
  QUOTED.lastIndex = at;
  const quoted = QUOTED.exec(path)?.[0];
  if (quoted === undefined) return undefined;
  try {
    return { step: JSON.parse(quoted.slice(1, -1)) as string, end: at + quoted.length };
  } catch {
    return undefined;
  }
}
