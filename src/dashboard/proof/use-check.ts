import { useEffect, useState } from "react";
import { type CheckedStep, runSteps, type Step } from "./steps.ts";

/** False where the browser withholds Web Crypto: on pages loaded over plain HTTP from another host. */
export const canHash = (): boolean => (globalThis.crypto as Partial<Crypto> | undefined)?.subtle !== undefined;

/** Explains why this page cannot check anything, and how to change that. */
export const CANNOT_HASH =
  "This browser withholds cryptography from pages that came over plain HTTP from another machine. Open the dashboard over HTTPS, or use `agentctl vault verify`.";

/** Runs the steps of a check once per list of steps; undefined while they run. */
export function useCheck(steps: readonly Step[] | undefined): readonly CheckedStep[] | undefined {
  const [checked, setChecked] = useState<{ readonly of: readonly Step[]; readonly steps: readonly CheckedStep[] }>();
  useEffect(() => {
    if (steps === undefined || !canHash()) return;
    let isGone = false;
    void runSteps(steps).then((results) => {
      if (!isGone) setChecked({ of: steps, steps: results });
    });
    return () => {
      isGone = true;
    };
  }, [steps]);
  return checked !== undefined && checked.of === steps ? checked.steps : undefined;
}
