/** One step of an argument path: into a member, or (`null`) into every element of an array. */
export type ArgumentStep = string | null;

/** A name that needs no quotes: without dot, bracket or quote, and without a blank at either end. */
const PLAIN = /^(?!\s)[^.[\]"]+(?<!\s)$/;
/** A step at the start of a text: into elements, a quoted member, or a plain member with an optional dot before it. */
const STEP = /^(?:(?<elements>\[\])|\[(?<quoted>"(?:[^"\\]|\\.)*")\]|(?<dot>\.?)(?<plain>[^.[\]"]+))/;

/** Appends a member's name to a path; an ambiguous name is quoted: `["a.b"]`. */
export function memberPath(parent: string, name: string): string {
  if (!PLAIN.test(name)) return `${parent}[${JSON.stringify(name)}]`;
  return parent === "" ? name : `${parent}.${name}`;
}

/** Appends the step into every element of an array. */
export function elementPath(parent: string): string {
  return `${parent}[]`;
}

/** Writes steps as a path; the reverse of `argumentSteps`. */
export function argumentPath(steps: readonly ArgumentStep[]): string {
  return steps.reduce<string>((path, step) => (step === null ? elementPath(path) : memberPath(path, step)), "");
}

/** Reads a path. Returns undefined if it is invalid. A path MUST begin with a member. */
export function argumentSteps(path: string): readonly ArgumentStep[] | undefined {
  const steps = resultSteps(path);
  return steps?.[0] === null ? undefined : steps;
}

/** Reads a path in a value that may be a list: it may begin with the step into elements. Returns undefined if it is invalid. */
export function resultSteps(path: string): readonly ArgumentStep[] | undefined {
  const steps: ArgumentStep[] = [];
  for (let at = 0; at < path.length; ) {
    const match = STEP.exec(path.slice(at));
    const step = stepFrom(match?.groups ?? {}, at === 0);
    if (match === null || step === undefined) return undefined;
    steps.push(step);
    at += match[0].length;
  }
  return steps.length === 0 ? undefined : steps;
}

function stepFrom(groups: Readonly<Record<string, string | undefined>>, isFirst: boolean): ArgumentStep | undefined {
  const { elements, quoted, dot, plain } = groups;
  if (elements !== undefined) return null;
  if (quoted === undefined) return (dot === "") === isFirst ? plain : undefined;
  try {
    return JSON.parse(quoted) as string;
  } catch {
    return undefined;
  }
}
