import { CommandError, type CommandInput } from "./command.ts";

/** Asks whether the changes that were shown are to be made, unless `--yes` says so. Throws `CommandError` for anything but a yes. */
export async function assertConfirmed({ io, has }: CommandInput): Promise<void> {
  if (has("yes")) return;
  const answer = await io.confirm("Apply these changes?");
  if (answer === true) return;
  throw new CommandError(
    answer === undefined ? "there is no terminal for the question: pass --yes to apply" : "nothing was applied",
  );
}
