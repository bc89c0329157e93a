import { expect } from "chai";
import { codeOf, importsOf, sourceFiles } from "../architecture/source-files.ts";

const FILES = sourceFiles("src/verify", ".ts");

describe("the verifier", () => {
  it("imports its own files alone: neither packages nor modules of Node, which browsers do not have.", () => {
    const imports = FILES.flatMap(importsOf);
    expect(imports.length).to.be.greaterThan(10);
    expect(imports.filter(({ to }) => !to.startsWith("src/verify/"))).to.deep.equal([]);
  });

  it("uses no global of Node.", () => {
    const users = FILES.filter((file) => /\b(Buffer|process|global|require|__dirname)\b[.(]/.test(codeOf(file.text)));
    expect(users.map(({ path }) => path)).to.deep.equal([]);
  });
});
