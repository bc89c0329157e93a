/** Waits until a condition holds, at most a minute. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const started = Date.now();
  while (!(await holds())) {
    if (Date.now() - started > 60_000) throw new Error("it did not come to hold");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
