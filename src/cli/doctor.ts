import { ConfigError, type Setting } from "../config.ts";
import type { Finding } from "../doctor/doctor.ts";
import type { Command, CommandReport } from "./command.ts";
import { readSettings } from "./settings.ts";

function settingLine({ name, shown, source }: Setting): string {
  return `  ${name} = ${shown ?? "(unset)"}  [${source}]`;
}

const MARKS = { ok: "ok   ", note: "note ", wrong: "WRONG" } as const;

function reportOf(settings: readonly Setting[], findings: readonly Finding[]): CommandReport {
  const wrong = findings.filter(({ status }) => status === "wrong").length;
  const lines = [
    wrong === 0 ? "HEALTHY: nothing is wrong" : `UNHEALTHY: ${wrong} ${wrong === 1 ? "thing is" : "things are"} wrong`,
    ...findings.map(({ status, check, text }) => `  ${MARKS[status]}  ${check}: ${text}`),
    "",
    "Settings that differ from their defaults:",
    ...settings.filter(({ source }) => source !== "default").map(settingLine),
  ];
  return { lines, json: { healthy: wrong === 0, findings, settings }, isRefused: wrong > 0 };
}

/** Examines a service's host: its settings, and everything that they name. */
export const doctor: Command = {
  name: "doctor",
  arguments: "",
  summary: "print the settings in effect, and what is wrong with them and with what they name",
  details: [
    "Run it where the service runs, with its environment. It examines keys, database, Redis, ports and the data directory, changes",
    "nothing, and masks secrets. Refused when anything is wrong. `--json` holds every setting with its source.",
  ],
  options: [],
  async run(input) {
    try {
      const loaded = readSettings(input);
      // Imported late: no other command needs the clients of PostgreSQL and Redis.
      const { examine } = await import("../doctor/doctor.ts");
      return reportOf(loaded.settings, await examine(loaded));
    } catch (error) {
      const { cause } = error as Error;
      if (!(cause instanceof ConfigError)) throw error;
      return reportOf(
        [],
        cause.problems.map((text) => ({ check: "settings", status: "wrong", text })),
      );
    }
  },
};
