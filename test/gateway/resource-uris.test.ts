import { expect } from "chai";
import { uriFault } from "../../src/gateway/resource-uris.ts";

describe("the address of a resource", () => {
  for (const uri of [
    "file:///a/b%20c.txt",
    "file:///a b/\u00e9.txt",
    "FILE:///A",
    "file:///c:/a",
    "https://a.test",
    "https://A.test/b?c=../d#e",
    "memo://Insights",
    "proxy://https://a.test/b",
    "repo://owner%2Fname/a..b/.git",
    "urn:a:b",
    "test://template/{id}/data",
    "no address",
    "",
  ]) {
    it(`may be \`${uri}\`.`, () => expect(uriFault(uri)).to.equal(undefined));
  }

  for (const uri of [
    "file:///a/../b",
    "file:///a/%2e%2E/b",
    "file:///a/..",
    "x://a/./b",
    "file:///%76ault",
    "x://a/%76ault",
    "file:////a",
    "file:///a//b",
    "file:/a",
    "file:a",
    "file://localhost/a",
    "file:///a\\b",
    "file:///a%2fb",
    "file:///a\tb",
    " file:///a",
    "https://a.test./b",
    "https://a.test:443/b",
    "https://u@a.test/b",
    "https:/a.test/b",
    "https://\uff41.test/b",
    "https://a\u3002test/b",
    "https://a\u00ad.test/b",
    "https://%61.test/b",
    "https://0x7f.1/",
  ]) {
    it(`may not be ${JSON.stringify(uri)}, which names what another address names.`, () =>
      expect(uriFault(uri)).to.be.a("string"));
  }
});
