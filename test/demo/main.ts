import { playActs } from "./acts.ts";
import { setStage } from "./stage.ts";
import { tableFrom } from "./table.ts";

const cleanup = new AsyncDisposableStack();

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void cleanup.disposeAsync().finally(() => process.exit(1)));
}

try {
  const rows = await playActs(await setStage(cleanup));
  console.log(tableFrom(rows));
  const differing = rows.filter(({ isAsExpected }) => !isAsExpected).length;
  console.log(differing === 0 ? "\nall as expected" : `\n${differing} of ${rows.length} differ`);
  if (differing > 0) process.exitCode = 1;
} catch (error) {
  // What is still running when it was interrupted fails for that reason alone.
  if (!cleanup.disposed) console.error(error);
  process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
