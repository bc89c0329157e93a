import { expect } from "chai";
import { compileScrubber } from "../../../src/redaction/text/scrubber.ts";
import type { PersonalKind } from "../../../src/text/personal-kinds.ts";
import { marked, scrubberOf, unmarked } from "./harness.ts";

const TEXT = "Anna, anna@firma.de, 8.8.8.8";

describe("a scrubber", () => {
  it("replaces each finding by its kind.", () => {
    expect(scrubberOf(["Anna Berg"]).scrub("Anna Berg: anna@firma.de.")).to.equal("[PERSON_NAME]: [EMAIL].");
  });

  it("asks what takes the place of each value, in order.", () => {
    const asked: [PersonalKind, string][] = [];
    const scrubbed = scrubberOf().scrub(TEXT, (kind, value) => {
      asked.push([kind, value]);
      return `<${asked.length}>`;
    });
    expect(scrubbed).to.equal("Anna, <1>, <2>");
    expect(asked).to.deep.equal([
      ["email", "anna@firma.de"],
      ["ip_address", "8.8.8.8"],
    ]);
  });

  it("looks with the detectors of the kinds that it was given, and for registered values always.", () => {
    expect(scrubberOf(["Anna"], [], ["ip_address"]).scrub(TEXT)).to.equal(
      "[PERSON_NAME], [PERSON_NAME]@firma.de, [IP_ADDRESS]",
    );
    expect(scrubberOf(["Anna"], [], []).scrub(TEXT)).to.equal("[PERSON_NAME], [PERSON_NAME]@firma.de, 8.8.8.8");
  });

  it("takes what is registered before what a detector says of the same text.", () => {
    const registered = [{ kind: "other", value: "anna@firma.de" }] as const;
    expect(compileScrubber({ registered, allow: [] }).scrub("anna@firma.de")).to.equal("[OTHER]");
  });

  it("leaves an empty text empty.", () => {
    expect(scrubberOf(["Anna"]).scrub("")).to.equal("");
  });
});

describe("an allow-list", () => {
  const CASES: readonly { readonly title: string; readonly allow: readonly string[]; readonly text: string }[] = [
    { title: "an exact value in any letter case", allow: ["Info@Firma.de"], text: "info@firma.DE «xinfo@firma.de»" },
    { title: "the addresses of a domain", allow: ["*@firma.de"], text: "a@firma.de b@FIRMA.de «a@x.firma.de»" },
    { title: "values of every kind", allow: ["8.8.8.8", "+49 30 901820"], text: "8.8.8.8, +49  30 901820, «8.8.4.4»" },
    { title: "no registered value", allow: ["Anna"], text: "«Anna»" },
  ];
  for (const { title, allow, text } of CASES) {
    it(`allows ${title}.`, () => {
      expect(marked(unmarked(text), scrubberOf(["Anna"], allow).find(unmarked(text)))).to.equal(text);
    });
  }

  for (const entry of ["", " ", "*", "*@", "a*@firma.de", "*@*.de"]) {
    it(`refuses the entry \`${entry}\`.`, () => {
      expect(() => scrubberOf([], ["ok", entry])).to.throw("`allow[1]` must be a value, or `*@` and a domain");
    });
  }
});
