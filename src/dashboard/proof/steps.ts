/** One value that a step compared, and its source. */
export interface Compared {
  readonly label: string;
  /** A hash in hexadecimal, or a short text. */
  readonly value: string;
}

/** The result of one step of a check. */
export interface StepResult {
  readonly compared: readonly Compared[];
  /** Fault of the step, in a sentence; undefined if the step holds. */
  readonly fault?: string | undefined;
}

/** One step of a check, by a stable name. */
export interface Step<Name extends string = string> {
  readonly name: Name;
  /** Claim that the step checks, in a sentence. */
  readonly title: string;
  run(): Promise<StepResult>;
}

/** A step with its result. Steps after one that fails are `skipped`. */
export interface CheckedStep extends StepResult {
  readonly name: string;
  readonly title: string;
  readonly state: "holds" | "fails" | "skipped";
}

/** Runs a check of the verifier on the compared values. A check that throws fails. */
export async function holdsIf(compared: readonly Compared[], check: () => void | Promise<void>): Promise<StepResult> {
  try {
    await check();
    return { compared };
  } catch (error) {
    return { compared, fault: messageOf(error) };
  }
}

/** Runs the steps in order, up to the first that fails. A step that throws fails. */
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

/** Returns the step that failed. */
export const failedStep = (steps: readonly CheckedStep[]): CheckedStep | undefined =>
  steps.find(({ state }) => state === "fails");
