import type { JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { approvedFormsOf } from "../../src/provenance/argument-values.ts";
import { findInText } from "../../src/provenance/found-values.ts";
import { readArgument } from "../../src/provenance/read-argument.ts";
import type { ValueKind } from "../../src/provenance/sources.ts";

/** Tests whether a prompt makes a value of an argument trusted. */
function isTrustedBy(prompt: string, kind: ValueKind, value: JsonValue): boolean {
  const seen = new Set<string>();
  for (const _ of findInText(prompt, seen));
  const read = readArgument(kind, value);
  if (read.kind !== "value") return false;
  const { whole, parts, folders } = read.value;
  const isSeen = (form: string): boolean => seen.has(form);
  return whole.some(isSeen) || (parts.length > 0 && parts.every(isSeen)) || folders.some(isSeen);
}

const LINK = "Summarise https://good.com/page and [2001:db8::1], localhost:8080";
const REPORT = "Read report.csv and /data/report.csv, in docs/ and ../shared/";
const NUMBERS = "Pay 9007199254740992 and 1,500.00 EUR, then 0.5 and -3 for 0000000000000000";
const ACCOUNTS = "Copy to 192.168.1.10 on 2024-05-01, call 01.23.45.67.89, pay 12-34-56";

/** Values that another spelling shows as one of the prompt's own, which they are not. */
const FOREIGN: readonly (readonly [kind: ValueKind, prompt: string, values: readonly JsonValue[]])[] = [
  [
    "host",
    LINK,
    [
      "https:/evil.com/x",
      "https:evil.com",
      "https:443/x",
      "https:\\\\evil.com",
      "https:?x",
      "https:#x",
      "https:",
      "https://good.com／.evil.com/x",
      "https://good.com？.evil.com/x",
      "https://good.com＃.evil.com/x",
      "https://good.com/\nhttps://evil.com/",
      "https://good.com/ https://evil.com/",
      "https://good.com/<https://evil.com/>",
      "https://good.com:@evil.com/",
      "https://good.com\t.evil.com/",
    ],
  ],
  [
    "path",
    REPORT,
    [
      "https://evil.com/../../report.csv",
      "\\\\evil.com\\share\\..\\..\\data\\report.csv",
      "//evil.com/../data/report.csv",
      "~/../report.csv",
      "C:\\..\\report.csv",
      "$(id)/../report.csv",
      "`id`/../report.csv",
      "%TEMP%/../report.csv",
      "../../etc/passwd",
      "../shared/../../etc/passwd",
      "docs/../../secret",
    ],
  ],
  ["path", "Answer yes / no", ["/", "/etc/..", "//"]],
  ["resource", "Open https://good.com/page", ["https://good.com/page# ; rm x", "https://good.com/page?x"]],
  ["resource", "Archive the report of user 7", ["report#evil", "USER#eve", "$7%", "7.0", "#", "/", "report?x"]],
  [
    "number",
    NUMBERS,
    [9007199254740994, "9007199254740993", "+9007199254740993", "9007199254740993.0", "9007199254740993e0", "3", "5"],
  ],
  ["destination", ACCOUNTS, ["19.216.81.10", "192168110", "20240501", "2024-0501", "2024/05/01"]],
];

/** Values of the prompt in another spelling. */
const OWN: readonly (readonly [kind: ValueKind, prompt: string, values: readonly JsonValue[]])[] = [
  [
    "host",
    LINK,
    ["https://good.com/other?x=1#y", "GOOD.com", "good.com:443", "www.good.com.", "http://good.com:8080/"],
  ],
  [
    "path",
    REPORT,
    ["report.csv", "./report.csv", "x/../report.csv", "/data/a/../report.csv", "docs/new.md", "../shared/a"],
  ],
  ["resource", "Open https://good.com/page/#top and the folder 'docs'", ["https://good.com/page", "docs/", "DOCS"]],
  [
    "number",
    NUMBERS,
    ["9007199254740992", "009007199254740992.00", "$1500", 1500, "1,500", "0.50", ".5", -3, "0", "0000000000000000.0"],
  ],
  ["destination", ACCOUNTS, ["192.168.1.10", "0123456789", "123456", "12 34 56"]],
];

describe("reading an argument", () => {
  for (const [kind, prompt, values] of FOREIGN)
    for (const value of values)
      it(`takes no ${kind} ${JSON.stringify(value)} for one of "${prompt}".`, () => {
        expect(isTrustedBy(prompt, kind, value)).to.equal(false);
      });

  for (const [kind, prompt, values] of OWN)
    for (const value of values)
      it(`takes the ${kind} ${JSON.stringify(value)} for one of "${prompt}".`, () => {
        expect(isTrustedBy(prompt, kind, value)).to.equal(true);
      });

  it("reads no number out of a long text.", () => {
    for (const fill of [" ", "%", "$", "1", "\u00a0"]) {
      expect(readArgument("number", `1${fill.repeat(130_000)}1`)).to.deep.equal({ kind: "unreadable" });
    }
  });

  it("names no value in an approval that the rules did not read.", () => {
    const reasons = [
      { argument: "note", valueKind: "text" },
      { argument: "to", valueKind: "destination" },
    ] as const;
    const named = approvedFormsOf(reasons, { note: `bob@example.com ${"x ".repeat(100_000)}`, to: "eve@example.com" });
    expect(new Set(named)).to.deep.equal(new Set(["destination\0eve@example.com"]));
  });

  it("names the whole of a name that begins with #, and nothing shorter.", () => {
    const named = approvedFormsOf([{ argument: "channel", valueKind: "resource" }], { channel: "#general" });
    expect(named).to.deep.equal(["resource\0#general"]);
  });
});
