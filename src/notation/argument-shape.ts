import { argumentSteps } from "./argument-path.ts";

/** An argument as a tool's schema declares it, by its path. */
export interface DeclaredArgument {
  readonly path: string;
  /** JSON types that its value may have. */
  readonly types: readonly string[];
  readonly description?: string | undefined;
  /** Texts that it may be; undefined or empty for any. */
  readonly texts?: readonly string[] | undefined;
}

/** Members and elements that a schema declares below a place. */
export interface ArgumentShape {
  readonly members: ReadonlyMap<string, ArgumentShape>;
  /** Elements, if it is a list. */
  readonly elements: ArgumentShape | undefined;
  /** The argument at the place; undefined for the arguments as a whole. */
  readonly argument: DeclaredArgument | undefined;
}

interface Growing {
  readonly members: Map<string, Growing>;
  elements: Growing | undefined;
  argument: DeclaredArgument | undefined;
}

const grown = (): Growing => ({ members: new Map(), elements: undefined, argument: undefined });

/** Builds the shape of the arguments of a tool. A path that is none is left out. */
export function shapeOfArguments(args: readonly DeclaredArgument[]): ArgumentShape {
  const root = grown();
  for (const argument of args) {
    let shape = root;
    for (const step of argumentSteps(argument.path) ?? []) {
      if (step === null) {
        shape.elements ??= grown();
        shape = shape.elements;
      } else {
        const next = shape.members.get(step) ?? grown();
        shape.members.set(step, next);
        shape = next;
      }
    }
    if (shape !== root) shape.argument = argument;
  }
  return root;
}
