/** One value that a step looked at, and where it came from. */
export interface Compared {
  readonly label: string;
  /** A hash in hexadecimal, or a short text. */
  readonly value: string;
}

/** The result of one step of a check. */
export interface StepResult {
  readonly compared: readonly Compared[];
  /** Why the step does not hold, in a sentence; undefined when it holds. */
  readonly fault?: string | undefined;
}

/** One step of a check, by a stable name. */
export interface Step<Name extends string = string> {
  readonly name: Name;
  /** What holds if the step does, in a sentence. */
  readonly title: string;
  run(): Promise<StepResult>;
}

/** A step and what came of it; `skipped` for those after one that does not hold. */
export interface CheckedStep extends StepResult {
  readonly name: string;
  readonly title: string;
  readonly state: "holds" | "fails" | "skipped";
}

/** Runs a check of the verifier on values that were compared. A check that throws does not hold. */
export async function holdsIf(compared: readonly Compared[], check: () => void | Promise<void>): Promise<StepResult> {
  try {
    await check();
    return { compared };
  } catch (error) {
    return { compared, fault: messageOf(error) };
  }
}

/** Runs the steps in their order, up to the first that does not hold. A step that throws does not hold. */
export async function runSteps(steps: readonly Step[]): Promise<readonly CheckedStep[]> {
  const checked: CheckedStep[] = [];
  let hasFailed = false;
  for (const step of steps) {
    const { name, title } = step;
    if (hasFailed) {
      checked.push({ name, title, state: "skipped", compared: [] });
      continue;
    }
    const result = await step.run().catch((error: unknown) => ({ compared: [], fault: messageOf(error) }));
    hasFailed = result.fault !== undefined;
    checked.push({ name, title, state: hasFailed ? "fails" : "holds", ...result });
  }
  return checked;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Returns the step that does not hold; undefined when all do. */
export const failedStep = (steps: readonly CheckedStep[]): CheckedStep | undefined =>
  steps.find(({ state }) => state === "fails");
