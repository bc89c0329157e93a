import { expect } from "chai";
import { signatureOf, WHEN_CALLS, WHEN_MACROS, WHEN_VARIABLES } from "../../src/notation/when-names.ts";

describe("the names of expressions", () => {
  it("have a sentence each, and no name twice.", () => {
    const all = [...WHEN_VARIABLES, ...WHEN_MACROS, ...WHEN_CALLS];
    for (const { name, help } of all) expect(help, name).to.match(/^[^.]{8,}/);
    const names = all.map(({ name }) => name);
    expect(new Set(names).size).to.equal(names.length);
  });

  it("are written as they are called.", () => {
    const written = [...WHEN_MACROS, ...WHEN_CALLS].map(signatureOf);
    expect(written).to.include.members([
      "list.all(x, condition) → bool",
      "text.replace(old, new, most?) → text",
      "in_list(text, name) → bool",
    ]);
  });
});
