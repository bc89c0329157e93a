import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";

const CLIENT = join(import.meta.dirname, "..", "..", "src", "client");
const BROWSER_SAFE = /^(\.\/[\w-]+\.ts|\.\.\/\.\.\/gen\/.+_pb\.js|@bufbuild\/protobuf.*|@connectrpc\/connect(-web)?)$/;
const NODE_PART =
  /^(\.{1,2}\/[\w-]+\.ts|\.\.\/\.\.\/\.\.\/gen\/.+_pb\.js|@bufbuild\/protobuf.*|@connectrpc\/.+|@grpc\/grpc-js|node:.+)$/;

async function importsOf(folder: string): Promise<{ file: string; from: string }[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".ts"));
  const each = names.map(async (file) => {
    const source = await readFile(join(folder, file), "utf8");
    return [...source.matchAll(/(?:\bfrom|\bimport|\brequire)\s*\(?\s*"([^"]+)"/g)].map(([, from = ""]) => ({
      file,
      from,
    }));
  });
  return (await Promise.all(each)).flat();
}

describe("the client library's imports", () => {
  it("keep the core free of Node and of the service's own folders", async () => {
    const imports = await importsOf(CLIENT);
    expect(imports.length).to.be.greaterThan(20);
    expect(imports.filter(({ from }) => !BROWSER_SAFE.test(from))).to.deep.equal([]);
  });

  it("keep the Node part to the core, Connect and grpc-js", async () => {
    const imports = await importsOf(join(CLIENT, "node"));
    expect(imports.length).to.be.greaterThan(10);
    expect(imports.filter(({ from }) => !NODE_PART.test(from))).to.deep.equal([]);
  });
});
