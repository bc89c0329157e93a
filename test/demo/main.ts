import { createPerson } from "./person.ts";
import { setStage } from "./stage.ts";
import { Story } from "./story.ts";

const isAutomatic = process.argv.includes("--auto");
if (!isAutomatic && !process.stdin.isTTY) {
  console.error("the demo asks a person; run it in a terminal, or with `npm run demo -- --auto`");
  process.exit(2);
}

const cleanup = new AsyncDisposableStack();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void cleanup.disposeAsync().finally(() => process.exit(1)));
}

try {
  console.log("Starting a control plane with its own database, and an MCP filesystem server behind its gateway …");
  const stage = await setStage(cleanup);
  const story = new Story(stage, createPerson(stage, isAutomatic), cleanup);
  await story.tell();
  const { differences } = story;
  console.log(differences.length === 0 ? "\nEverything came out as told." : `\n${differences.length} differ.`);
  if (differences.length > 0) process.exitCode = 1;
} catch (error) {
  // After an interruption, running steps fail for that reason alone.
  if (!cleanup.disposed) console.error(error);
  process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
