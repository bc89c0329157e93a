import { expect } from "chai";
import { maskedArguments, maskedUrl } from "../../src/registry/secret-masks.ts";
import { isSameOrigin } from "../../src/registry/url-origin.ts";

const BANK = "https://bank.example/mcp";

describe("the origin of a URL", () => {
  const SAME: readonly [string, string, string][] = [
    ["another path", BANK, "https://bank.example/other/v2"],
    ["another query and fragment", BANK, "https://bank.example/mcp?tenant=1#a"],
    ["letter case of scheme and host", BANK, "HTTPS://BANK.Example/mcp"],
    ["the default port, written out", BANK, "https://bank.example:443/mcp"],
    ["the default port of http, written out", "http://bank.example/", "http://bank.example:80/"],
    ["credentials", BANK, "https://bank.example@bank.example/mcp"],
    ["an international name in both spellings", "https://bücher.example/", "https://xn--bcher-kva.example/"],
    ["full-width letters", BANK, "https://ｂａｎｋ.example/mcp"],
    ["percent signs in the host", BANK, "https://%62ank.example/mcp"],
    ["spellings of an address", "http://127.0.0.1:81/", "http://0x7f.1:81/"],
    ["spellings of an IPv6 address", "http://[::1]:81/", "http://[0:0:0:0:0:0:0:1]:81/"],
    ["blanks and line ends", BANK, " https://bank.ex\nample/mcp"],
  ];
  const OTHER: readonly [string, string, string][] = [
    ["another host", BANK, "https://evil.example/mcp"],
    ["a host below it", BANK, "https://mcp.bank.example/mcp"],
    ["a host that begins so", BANK, "https://bank.example.evil.example/mcp"],
    ["the host as credentials", BANK, "https://bank.example@evil.example/mcp"],
    ["the host as a user with a password", BANK, "https://bank.example:443@evil.example/mcp"],
    ["the host before a backslash", BANK, "https://evil.example\\@bank.example/mcp"],
    ["another port", BANK, "https://bank.example:8443/mcp"],
    ["http in place of https", BANK, "http://bank.example/mcp"],
    ["https in place of http", "http://bank.example/", "https://bank.example/"],
    ["http on the port of https", BANK, "http://bank.example:443/mcp"],
    ["a final dot", BANK, "https://bank.example./mcp"],
    ["letters that look alike", BANK, "https://bаnk.example/mcp"],
    ["an international name without its mark", "https://bücher.example/", "https://bucher.example/"],
    ["a name of an address", "http://127.0.0.1/", "http://localhost/"],
  ];
  for (const [what, one, other] of SAME) {
    it(`is not changed by ${what}.`, () => expect(isSameOrigin(one, other)).to.equal(true));
  }
  for (const [what, one, other] of OTHER) {
    it(`is changed by ${what}.`, () => expect(isSameOrigin(one, other)).to.equal(false));
  }
});

describe("what auditors and the log see", () => {
  const URLS: readonly [string, string][] = [
    ["https://mcp.example.com/mcp", "https://mcp.example.com/mcp"],
    ["https://mcp.example.com", "https://mcp.example.com/"],
    ["http://127.0.0.1:8080/api/v2/Acme-Corp/files.read/", "http://127.0.0.1:8080/api/v2/Acme-Corp/files.read/"],
    ["https://me:sesame@mcp.example.com/mcp", "https://mcp.example.com/mcp"],
    ["https://mcp.example.com/mcp?token=sesame&x", "https://mcp.example.com/mcp?***"],
    ["https://mcp.example.com/mcp#sesame", "https://mcp.example.com/mcp#***"],
    ["https://mcp.example.com/s/c2VzYW1l4711/mcp", "https://mcp.example.com/s/***/mcp"],
    ["https://mcp.example.com/s/OpenSesameNow/mcp", "https://mcp.example.com/s/***/mcp"],
    ["https://mcp.example.com/s/0f8fad5b-d9cb-469f-a165-70867728950e", "https://mcp.example.com/s/***"],
    ["https://mcp.example.com/%73esame", "https://mcp.example.com/***"],
  ];
  for (const [url, want] of URLS) {
    it(`of ${url} is ${want}.`, () => expect(maskedUrl(url)).to.equal(want));
  }

  it("of arguments are the names of options.", () => {
    const args = [
      "-y",
      "--token=sesame",
      "--token",
      "sesame",
      "-psesame",
      "postgres://me:sesame@db/x",
      "--",
      "--Sesame",
      "--a=b=c",
      "sesame\n",
    ];
    const want = ["-y", "--token=***", "--token", "***", "***", "***", "***", "***", "--a=***", "***"];
    expect(maskedArguments(args)).to.deep.equal(want);
  });
});
