import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import { createLocalJWKSet, jwtVerify, SignJWT } from "jose";
import type {
  CreateFederationTokenRequestSchema,
  CreateFederationTokenResponse,
} from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { ORIGIN, openWorkspace, PUBLIC_URL, reasonOf, type TestWorkspace } from "../support/harness.ts";

type Asked = MessageInitShape<typeof CreateFederationTokenRequestSchema>;

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const decoded = (part: string | undefined) => JSON.parse(Buffer.from(part ?? "", "base64url").toString());

describe("federation tokens", () => {
  let test: TestWorkspace;
  /** The key of the admin of a second workspace. */
  let otherKey: string;
  let agentId: string;
  before(async () => {
    test = await openWorkspace();
    otherKey = (await test.admin.createWorkspace({ workspaceId: "other" })).secret;
    agentId = await test.agent("traveller");
  });
  after(() => test.close());

  const issue = (over: Asked = {}): Promise<CreateFederationTokenResponse> =>
    test.authority.createFederationToken({
      agentId,
      audience: PUBLIC_URL,
      allowedActionTypes: ["mail.*"],
      ttlSeconds: 60n,
      ...over,
    });
  const idOf = ({ federationToken }: CreateFederationTokenResponse): string => federationToken?.federationTokenId ?? "";
  const intercept = (key: string, actionType = "mail.send", agent = agentId) =>
    test.enforcement.intercept({ agentId: agent, actionType }, key);
  const verify = async (token: string, over: { audience?: string; actionType?: string } = {}, key?: string) => {
    const { valid, reason } = await test.authority.verifyFederationToken({ token, ...over }, key);
    expect(valid).to.equal(reason === undefined);
    return reason ?? "VALID";
  };

  it("verify with the published key set alone.", async () => {
    const made = await issue({ audience: "https://partner.example", maxTrustLevel: 40.5 });
    const keySet = createLocalJWKSet(await test.keys.jwks());
    const options = { issuer: "agent-control-plane", audience: "https://partner.example", algorithms: ["ES256"] };
    const { payload, protectedHeader } = await jwtVerify(made.token, keySet, options);
    expect(protectedHeader).to.deep.equal({ alg: "ES256", kid: test.keys.keyId, typ: "JWT" });
    expect(payload).to.deep.include({ sub: agentId, jti: idOf(made), ws: "default", max_trust: 40.5 });
    expect(payload.action_types).to.deep.equal(["mail.*"]);
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).to.equal(60);
  });

  it("are in no table and no entry.", async () => {
    const { token } = await issue();
    const signature = token.split(".")[2] ?? "";
    const { pool } = test.database;
    const rows = await pool.query("select to_jsonb(a)::text as text from authority a");
    const entries = await pool.query("select body as text from ledger_entry");
    for (const { text } of [...rows.rows, ...entries.rows]) expect(text).to.not.include(signature);
  });

  it("open Intercept for their agent and their action types alone.", async () => {
    const made = await issue();
    const reply = await intercept(made.token);
    expect(reply.decision).to.equal(Decision.ALLOW);
    const { receipt } = await test.enforcement.getDecision({ decisionId: reply.decisionId });
    const body = JSON.parse(receipt?.canonicalBody ?? "");
    expect(body).to.deep.include({ key_id: idOf(made), authority: [idOf(made)] });
    expect(await intercept(made.token, "pay")).to.include({ decisionPath: DecisionPath.CREDENTIAL });
    const another = await test.agent("another");
    expect(await reasonOf(intercept(made.token, "mail.send", another))).to.equal("AGENT_NOT_ALLOWED");
    expect(await reasonOf(test.authority.listSessions({}, made.token))).to.equal("ROLE_NOT_ALLOWED");
  });

  it("open calls only where their audience is the service: its address, or the name that its workspace shows.", async () => {
    const { workspace } = await test.admin.getWorkspace({ workspaceId: "default" });
    expect(workspace?.audience).to.equal(`${ORIGIN}/workspaces/default`);
    const own = [PUBLIC_URL, "HTTPS://ACP.Example.com:443/", `${PUBLIC_URL}//`, workspace?.audience ?? ""];
    for (const audience of own)
      expect((await intercept((await issue({ audience })).token)).decision, audience).to.equal(Decision.ALLOW);
    for (const audience of [
      "https://partner.example",
      "http://acp.example.com",
      `${PUBLIC_URL}:8443`,
      `${PUBLIC_URL}/mcp/files`,
      `${PUBLIC_URL}?x`,
      `${PUBLIC_URL}.evil.example`,
      "https://user@acp.example.com",
      "acp.example.com",
      `${ORIGIN}/workspaces/other`,
      `${ORIGIN}/workspaces/DEFAULT`,
      `${ORIGIN}/workspaces/default/`,
      ORIGIN,
    ]) {
      const { token } = await issue({ audience });
      for (const call of [intercept(token), test.agents.getAgent({ agentId }, token)]) {
        const refusal = await call.then(
          () => undefined,
          (error: unknown) => error,
        );
        expect((refusal as ControlPlaneError | undefined)?.reason, audience).to.equal(ErrorReason.KEY_INVALID);
        expect((refusal as ControlPlaneError).message).to.equal(
          `the federation token is for another audience; it must be \`${PUBLIC_URL}\``,
        );
      }
      expect(await verify(token), audience).to.equal("VALID");
      expect(await verify(token, { audience }), audience).to.equal("VALID");
      expect(await verify(token, { audience: PUBLIC_URL }), audience).to.equal("AUDIENCE");
    }
  });

  it("cap the trust that mandates see.", async () => {
    const { token } = await issue({ maxTrustLevel: 10, allowedActionTypes: ["trusted.*"] });
    const rule = {
      type: RuleType.TRUST,
      decision: Decision.BLOCK,
      conditions: { matchActionTypes: ["trusted.*"], below: 20 },
    };
    await test.mandates.createMandate({ name: "trusted only", scope: Scope.WORKSPACE, rules: [rule] });
    expect((await intercept(test.adminKey, "trusted.act")).decision).to.equal(Decision.ALLOW);
    const refused = await intercept(token, "trusted.act");
    expect(refused).to.include({ decisionPath: DecisionPath.POLICY, trustScore: 10 });
    const { decision, receipt } = await test.enforcement.getDecision({ decisionId: refused.decisionId });
    expect(decision?.trustScore).to.equal(10);
    expect(receipt?.trust?.capped).to.equal(10);
    expect(receipt?.trust?.before).to.be.above(40);
  });

  it("are refused with a decision by Intercept once ended or expired, and opened by nothing else.", async () => {
    const ended = await issue();
    const expired = await issue({ ttlSeconds: 1n });
    await test.agents.getAgent({ agentId }, ended.token);
    await test.authority.endFederationToken({ federationTokenId: idOf(ended) });
    test.clock.advance(1_200);
    for (const { token } of [ended, expired]) {
      const reply = await intercept(token);
      expect(reply).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.CREDENTIAL });
      expect(await reasonOf(test.agents.getAgent({ agentId }, token))).to.equal("KEY_INVALID");
    }
    expect(await verify(ended.token)).to.equal("ENDED");
    expect(await verify(expired.token)).to.equal("EXPIRED");
  });

  it("are used up by what is allowed.", async () => {
    const { token } = await issue({ maxUses: 2n });
    await intercept(token, "pay");
    await intercept(token);
    expect(await verify(token)).to.equal("VALID");
    await intercept(token);
    expect(await verify(token)).to.equal("USED_UP");
    const reply = await intercept(token);
    expect(reply).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.CREDENTIAL });
  });

  it("are verified for an audience, an action type and an agent that may act.", async () => {
    const leaver = await test.agent("leaver");
    const { token } = await issue({ agentId: leaver, audience: "https://partner.example" });
    expect(await verify(token, { audience: "https://PARTNER.example/", actionType: " MAIL.send" })).to.equal("VALID");
    expect(await verify(token, { audience: "https://else.example" })).to.equal("AUDIENCE");
    expect(await verify(token, { actionType: "pay" })).to.equal("ACTION_TYPE");
    expect(await verify(token, {}, otherKey)).to.equal("UNKNOWN");
    await test.agents.deactivateAgent({ agentId: leaver });
    expect(await verify(token)).to.equal("AGENT_INACTIVE");
    await test.revoke(leaver);
    expect(await verify(token)).to.equal("ENDED");
  });

  it("verify on every replica by the key of the one that signed them.", async () => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    const other = await test.replica({ signingKey: privateKey });
    const mine = await issue();
    const init = { agentId, audience: PUBLIC_URL, allowedActionTypes: ["mail.*"], ttlSeconds: 60n };
    const theirs = await other.authority.createFederationToken(init);
    expect(decoded(theirs.token.split(".")[0]).kid).to.not.equal(test.keys.keyId);
    expect(await verify(theirs.token)).to.equal("VALID");
    expect((await other.authority.verifyFederationToken({ token: mine.token })).valid).to.equal(true);
    expect((await intercept(theirs.token)).decision).to.equal(Decision.ALLOW);
  });

  describe("that were forged or altered", () => {
    const stranger = generateKeyPairSync("ec", { namedCurve: "prime256v1" }).privateKey;
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;

    /** Signs a header and a payload as they are. */
    function signed(header: object, payload: object, key: KeyObject): string {
      const input = `${encoded(header)}.${encoded(payload)}`;
      const signature = sign("sha256", Buffer.from(input), { key, dsaEncoding: "ieee-p1363" });
      return `${input}.${signature.toString("base64url")}`;
    }
    type Forger = (token: string) => string | Promise<string>;
    const altered =
      (change: (payload: Record<string, unknown>) => object): Forger =>
      (token) => {
        const [header, payload, signature] = token.split(".");
        return `${header}.${encoded(change(decoded(payload)))}.${signature}`;
      };
    const resigned =
      (header: (kid: string) => object, key: () => KeyObject, change = (payload: object) => payload): Forger =>
      (token) => {
        const [head, payload] = token.split(".");
        return signed(header(decoded(head).kid), change(decoded(payload)), key());
      };
    const es256 = (kid: string) => ({ alg: "ES256", kid });
    const own = () => test.keys.privateKey;
    const unknownId = `fed_${"a".repeat(26)}`;

    const CASES: readonly { readonly description: string; readonly forge: Forger; readonly reason: string }[] = [
      { description: "another agent", forge: altered((p) => ({ ...p, sub: "agt_other" })), reason: "SIGNATURE" },
      { description: "a later expiry", forge: altered((p) => ({ ...p, exp: 9e9 })), reason: "SIGNATURE" },
      { description: "another workspace", forge: altered((p) => ({ ...p, ws: "other" })), reason: "SIGNATURE" },
      {
        description: "wider action types",
        forge: altered((p) => ({ ...p, action_types: ["*"] })),
        reason: "SIGNATURE",
      },
      {
        description: "algorithm none without a signature",
        forge: (token) => `${encoded({ alg: "none" })}.${token.split(".")[1]}.`,
        reason: "SIGNATURE",
      },
      {
        description: "algorithm none with the right key id",
        forge: (token) => {
          const [header, payload, signature] = token.split(".");
          return `${encoded({ ...decoded(header), alg: "none" })}.${payload}.${signature}`;
        },
        reason: "SIGNATURE",
      },
      {
        description: "the public key as an HMAC secret",
        forge: (token) => {
          const { kid } = decoded(token.split(".")[0]);
          const secret = new TextEncoder().encode(test.keys.publicPem);
          return new SignJWT(decoded(token.split(".")[1])).setProtectedHeader({ alg: "HS256", kid }).sign(secret);
        },
        reason: "SIGNATURE",
      },
      {
        description: "RSA under the right key id",
        forge: (token) => {
          const { kid } = decoded(token.split(".")[0]);
          return new SignJWT(decoded(token.split(".")[1])).setProtectedHeader({ alg: "RS256", kid }).sign(rsa);
        },
        reason: "SIGNATURE",
      },
      {
        description: "a stranger's key under the right key id",
        forge: resigned(es256, () => stranger),
        reason: "SIGNATURE",
      },
      { description: "an unknown key id", forge: resigned(() => es256("nobody"), own), reason: "SIGNATURE" },
      { description: "no key id", forge: resigned(() => ({ alg: "ES256" }), own), reason: "SIGNATURE" },
      {
        description: "the forger's own key in the header",
        forge: resigned(
          (kid) => ({ ...es256(kid), jwk: { kty: "EC" }, x5u: "https://evil.example" }),
          () => stranger,
        ),
        reason: "SIGNATURE",
      },
      {
        description: "a critical extension nobody knows",
        forge: resigned((kid) => ({ ...es256(kid), crit: ["x"], x: 1 }), own),
        reason: "SIGNATURE",
      },
      {
        description: "a record that is none",
        forge: resigned(es256, own, (p) => ({ ...p, jti: unknownId })),
        reason: "UNKNOWN",
      },
      {
        description: "another agent than its record's",
        forge: resigned(es256, own, (p) => ({ ...p, sub: "agt_other" })),
        reason: "UNKNOWN",
      },
      {
        description: "another workspace than its record's",
        forge: resigned(es256, own, (p) => ({ ...p, ws: "other" })),
        reason: "UNKNOWN",
      },
      {
        description: "another issuer",
        forge: resigned(es256, own, (p) => ({ ...p, iss: "else" })),
        reason: "MALFORMED",
      },
      {
        description: "an id of another kind",
        forge: resigned(es256, own, (p) => ({ ...p, jti: "crd_a" })),
        reason: "MALFORMED",
      },
      { description: "no payload to speak of", forge: resigned(es256, own, () => [1]), reason: "MALFORMED" },
      { description: "half a signature", forge: (token) => token.slice(0, -42), reason: "SIGNATURE" },
      {
        description: "no signature",
        forge: (token) => `${token.split(".").slice(0, 2).join(".")}.`,
        reason: "SIGNATURE",
      },
      { description: "two parts", forge: (token) => token.split(".").slice(0, 2).join("."), reason: "MALFORMED" },
      { description: "four parts", forge: (token) => `${token}.e30`, reason: "MALFORMED" },
      { description: "padding", forge: (token) => `${token}==`, reason: "MALFORMED" },
      { description: "a space", forge: (token) => `${token} `, reason: "MALFORMED" },
      {
        description: "a header that is no JSON",
        forge: (token) => `e3.${token.split(".").slice(1).join(".")}`,
        reason: "MALFORMED",
      },
      { description: "words", forge: () => "not a token", reason: "MALFORMED" },
    ];
    for (const { description, forge, reason } of CASES) {
      it(`open nothing: ${description}.`, async () => {
        const forged = await forge((await issue()).token);
        expect(await verify(forged)).to.equal(reason);
        expect(await reasonOf(intercept(forged))).to.equal("KEY_INVALID");
      });
    }

    it("open nothing by any other last character.", async () => {
      const { token } = await issue();
      const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
      const others = [...alphabet].map((last) => token.slice(0, -1) + last).filter((other) => other !== token);
      for (const other of others) expect(await verify(other), other.slice(-1)).to.not.equal("VALID");
      expect(await verify(token)).to.equal("VALID");
    });
  });
});
