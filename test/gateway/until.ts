/** Waits until a condition holds, at most ten seconds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const started = Date.now();
  while (!(await holds())) {
    if (Date.now() - started > 10_000) throw new Error("it did not come to hold");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
