import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { newChecks, OidcIssuer } from "../../src/server/dashboard/oidc-issuer.ts";
import type { OidcRefusal } from "../../src/server/dashboard/oidc-refusal.ts";

describe("an OpenID Connect issuer", () => {
  let server: Server;
  let url: string;
  let mode: "hangs" | "answers" | "insecure" | "another" | "fails";
  let asked = 0;
  before(async () => {
    server = createServer((_request, response) => {
      asked++;
      if (mode === "hangs") return;
      if (mode === "fails") return void response.writeHead(500).end();
      const document = {
        issuer: mode === "another" ? "https://evil.example" : url,
        authorization_endpoint: mode === "insecure" ? "http://login.example.com/a" : `${url}/a`,
        token_endpoint: `${url}/t`,
      };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(document));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  let nowMs = 0;
  const create = (): OidcIssuer =>
    new OidcIssuer({
      url,
      clientId: "c",
      clientSecret: "s",
      scope: "openid",
      redirectUri: "http://127.0.0.1/c",
      groupsClaim: "g",
      now: () => nowMs,
      requestMs: 200,
    });
  const begin = (issuer: OidcIssuer): Promise<string> =>
    issuer.authorizationUrl(newChecks()).then(
      ({ pathname }) => pathname,
      ({ fault }: OidcRefusal) => fault,
    );

  it("is given up after its time, and not asked again at once.", async () => {
    const issuer = create();
    mode = "hangs";
    asked = 0;
    expect(await Promise.all([begin(issuer), begin(issuer)])).to.deep.equal(["unreachable", "unreachable"]);
    expect(await begin(issuer)).to.equal("unreachable");
    expect(asked).to.equal(1);
    mode = "answers";
    nowMs += 2_000;
    expect(await begin(issuer)).to.equal("/a");
  });

  it("is read again after an hour, and serves as it was while it cannot be read.", async () => {
    const issuer = create();
    mode = "answers";
    asked = 0;
    expect([await begin(issuer), await begin(issuer), asked]).to.deep.equal(["/a", "/a", 1]);
    nowMs += 3_600_000;
    mode = "fails";
    expect([await begin(issuer), await begin(issuer), asked]).to.deep.equal(["/a", "/a", 2]);
    nowMs += 2_000;
    mode = "answers";
    expect([await begin(issuer), await begin(issuer), asked]).to.deep.equal(["/a", "/a", 3]);
  });

  it("is refused when it names another issuer, or an address without TLS elsewhere.", async () => {
    mode = "another";
    expect(await begin(create())).to.equal("unreachable");
    mode = "insecure";
    expect(await begin(create())).to.equal("unproven");
  });
});
