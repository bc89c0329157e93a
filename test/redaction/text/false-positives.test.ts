import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { scrubberOf } from "./harness.ts";
import { accountsFrom, createRandom, proseFrom } from "./prose.ts";

const ROOT = join(import.meta.dirname, "../../..");
const SCRUBBER = scrubberOf([], ["*@example.com", "*@example.org"]);
const LINES = 5000;

type Line = (random: () => number) => string;

const whole = (random: () => number, limit: number): number => Math.floor(random() * limit);
const hex = (random: () => number, length: number): string =>
  createHash("sha512").update(String(random())).digest("hex").slice(0, length);
const digits = (random: () => number, length: number): string =>
  Array.from({ length }, () => whole(random, 10)).join("");
const instant = (random: () => number): Date => new Date(whole(random, 2 ** 41));
const uuid: Line = (random) => hex(random, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

/** Lines without personal values, with how many of 5,000 are taken for one: numbers that happen to check. */
const KINDS: readonly { readonly name: string; readonly line: Line; readonly findings: number }[] = [
  { name: "prose", line: (random) => proseFrom(random, 200, []), findings: 0 },
  { name: "UUIDs", line: uuid, findings: 0 },
  { name: "SHA-256 hashes", line: (random) => hex(random, 64), findings: 0 },
  { name: "abbreviated hashes", line: (random) => `commit ${hex(random, 7 + whole(random, 9))} fixes it`, findings: 0 },
  { name: "base64", line: (random) => Buffer.from(hex(random, 60), "hex").toString("base64"), findings: 0 },
  {
    name: "ISO times",
    line: (random) => `at ${instant(random).toISOString()} and ${instant(random).toISOString().slice(0, 10)}`,
    findings: 0,
  },
  {
    name: "local times",
    line: (random) => `[${instant(random).toLocaleString("de-DE", { timeZone: "UTC" })}] started`,
    findings: 0,
  },
  {
    name: "epoch seconds and milliseconds",
    line: (random) => `${1.6e9 + whole(random, 2e8)} ${1.6e12 + whole(random, 2e11)}`,
    findings: 0,
  },
  { name: "epoch nanoseconds", line: (random) => `ts=16${digits(random, 17)}`, findings: 0 },
  {
    name: "prices",
    line: (random) =>
      `${whole(random, 1e6)}.${digits(random, 3)},${digits(random, 2)} EUR or $${whole(random, 1000)},${digits(random, 3)}.${digits(random, 2)}`,
    findings: 0,
  },
  {
    name: "versions",
    line: (random) =>
      `v${whole(random, 20)}.${whole(random, 30)}.${whole(random, 99)}.${whole(random, 99)}, pkg@${whole(random, 9)}.${whole(random, 9)}.1-rc.${whole(random, 9)}, version 10.0.${whole(random, 99)}.${whole(random, 99)}`,
    findings: 0,
  },
  {
    name: "logs",
    line: (random) =>
      `${instant(random).toISOString()} INFO [worker-${whole(random, 99)}] GET /v1/items/${whole(random, 1e7)}?page=${whole(random, 99)} 200 ${whole(random, 9999)}ms 10.0.${whole(random, 255)}.${whole(random, 255)}:${1024 + whole(random, 60000)}`,
    findings: 0,
  },
  { name: "order numbers", line: (random) => accountsFrom(random, 1).join(), findings: 0 },
  {
    name: "numbers of 6 to 10 digits",
    line: (random) => `id ${digits(random, 6 + whole(random, 5))} done`,
    findings: 0,
  },
  { name: "numbers of 11 digits", line: (random) => `id ${digits(random, 11)} done`, findings: 23 },
  { name: "numbers of 16 digits", line: (random) => `id ${digits(random, 16)} done`, findings: 162 },
  { name: "numbers of 18 digits", line: (random) => `id ${digits(random, 18)} done`, findings: 48 },
  {
    name: "fractions",
    line: (random) => `${whole(random, 9)}.${digits(random, 16)} ${whole(random, 99)},${digits(random, 8)}`,
    findings: 0,
  },
  {
    name: "tables of numbers",
    line: (random) => Array.from({ length: 8 }, () => whole(random, 10 ** whole(random, 5))).join(" "),
    findings: 5,
  },
];

/** Text files of the repository below a folder, without those that write of personal values. */
function sourcesBelow(folder: string): string[] {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" });
  return names
    .filter((name) => /\.(ts|js|proto|sql|md)$/.test(name) && !/redact|^text\/detectors/.test(name))
    .map((name) => readFileSync(join(ROOT, folder, name), "utf8"));
}

describe("false positives", () => {
  for (const { name, line, findings } of KINDS) {
    it(`are ${findings} in ${LINES} lines of ${name}.`, () => {
      const random = createRandom(7);
      const text = Array.from({ length: LINES }, () => line(random)).join("\n");
      const found = SCRUBBER.find(text).map(({ kind, start, end }) => `${kind} ${text.slice(start, end)}`);
      expect(found.length, found.slice(0, 20).join("; ")).to.equal(findings);
    });
  }

  it("are none in the sources of this repository.", () => {
    const sources = ["src", "gen", "proto"].flatMap(sourcesBelow);
    const found = sources.flatMap((text) => SCRUBBER.find(text).map(({ start, end }) => text.slice(start, end)));
    expect(found).to.deep.equal([]);
  });
});
