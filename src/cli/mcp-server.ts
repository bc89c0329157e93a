import { isJsonRecord, type JsonRecord, listAt, stringFrom, textAt } from "../verify/json.ts";
import { CommandError, type CommandInput } from "./command.ts";
import { cellText } from "./table.ts";

/** Path of the MCP servers. */
export const PATH = "/v1/enforce/mcp-servers";

/** Returns the path of a server, or of something below it. */
export const pathOf = (name: string, rest = ""): string => `${PATH}/${encodeURIComponent(name)}${rest}`;

/** Reads values from the environment, where a list of processes does not show them: `name=VARIABLE`, or `VARIABLE`. */
export function secretsFrom(input: CommandInput, option: "header" | "env"): { name: string; value: string }[] {
  return input.options(option).map((text) => {
    const [name = "", variable = name] = text.split("=");
    const value = input.io.env[variable];
    if (name !== "" && value !== undefined && value !== "") return { name, value };
    throw new CommandError(`--${option} ${text}: the environment variable \`${variable}\` is not set`);
  });
}

/** Returns a server's name, mode and location in one line. */
export function serverLine(server: JsonRecord): string {
  const target = stringFrom(server.url) ?? [textAt(server, "command"), ...listedTexts(server, "args")].join(" ");
  return `${textAt(server, "name").padEnd(20)}  ${textAt(server, "mode").padEnd(10)}  ${target}`;
}

/** Returns a line for what a person should look at: definitions that wait, and a server that does not answer. */
export function attentionLines(server: JsonRecord): string[] {
  const counted = [
    [server.new_definitions, "new"],
    [server.changed_definitions, "changed"],
  ] as const;
  const waiting = counted.filter(([count]) => Number(count) > 0).map(([count, word]) => `${String(count)} ${word}`);
  const { away } = server;
  return [
    ...(waiting.length === 0 ? [] : [`  waits      ${waiting.join(", ")} to accept`]),
    ...(isJsonRecord(away) ? [`  away       since ${cellText(away.since)}: ${textAt(away, "reason")}`] : []),
  ];
}

/** Returns a line for each protection against a command. */
export const protectionLines = (server: JsonRecord): string[] =>
  listAt(server, "protections")
    .filter(isJsonRecord)
    .map(
      (each) =>
        `  ${textAt(each, "kind").padEnd(11)}${each.holds === true ? "" : "NOT HELD: "}${textAt(each, "detail")}`,
    );

/** Returns a list of texts; empty if the member is missing. */
export const listedTexts = (record: JsonRecord, name: string): readonly string[] => {
  const value = record[name];
  return Array.isArray(value) ? value.map(String) : [];
};
