import { ConfigError, type LoadedConfig, readConfig } from "../config.ts";
import { CommandError, type CommandInput } from "./command.ts";

/** Reads the settings of the service from the environment of a command. Throws `CommandError` with every fault. */
export function readSettings({ io }: CommandInput): LoadedConfig {
  try {
    return readConfig(io.env);
  } catch (error) {
    if (error instanceof ConfigError) throw new CommandError(error.problems.join("; "), { cause: error });
    throw error;
  }
}
