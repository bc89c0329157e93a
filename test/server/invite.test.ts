import { expect } from "chai";
import { freePort } from "../support/free-port.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { startService, type TestService } from "../support/service.ts";

interface Reply {
  readonly status: number;
  readonly json: { readonly [member: string]: unknown };
}

const SECRET = "a-secret-of-two-processes-of-the-tests";

describe("an invite", () => {
  let service: TestService;
  /** One more service on the same database. */
  let other: ServedHere;
  before(async () => {
    const port = await freePort();
    const env = { ACP_HTTP_PORT: String(port), ACP_PUBLIC_URL: `http://127.0.0.1:${port}`, ACP_ENCRYPTION_KEY: SECRET };
    service = await startService({ env });
    const shared = { ...env, ACP_HTTP_PORT: "0", ACP_ADMIN_KEY: service.adminKey };
    other = await serveHere({ databaseUrl: service.database.url, env: shared });
  });
  after(async () => {
    await other?.stop();
    await service?.stop();
  });

  async function open(secret: unknown, at = service.http, headers: Record<string, string> = {}): Promise<Reply> {
    const response = await fetch(`${at}/dashboard/invite`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ secret }),
    });
    return { status: response.status, json: (await response.json()) as Reply["json"] };
  }

  async function invited(name: string): Promise<{ url: string; secret: string }> {
    const added = await service.rest("POST /v1/admin/people", { name, role: "operator" });
    const { person_id: id } = added.person as unknown as { person_id: string };
    const { url } = await service.rest(`POST /v1/admin/people/${id}:invite`);
    return { url: String(url), secret: String(url).split("#")[1] ?? "" };
  }

  const reasonIn = ({ json }: Reply): unknown =>
    (json.error as { details?: { reason?: string }[] } | undefined)?.details?.[0]?.reason;

  it("leads to a page of the dashboard, with its secret where no server sees it.", async () => {
    const { url } = await invited("Ann Lee");
    expect(url).to.match(new RegExp(`^${service.http}/invite#acpi_[a-z2-7]{52}$`));
  });

  it("shows its person a key, once over all processes, without a sign-in.", async () => {
    const { secret } = await invited("Ann Lee");
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => open(secret, index % 2 === 0 ? service.http : other.http)),
    );
    const [shown, ...more] = answers.filter(({ status }) => status === 200);
    expect(more).to.deep.equal([]);
    expect(shown?.json).to.include({ name: "Ann Lee", workspace_id: "default", role: "operator" });
    const refused = answers.filter(({ status }) => status !== 200);
    expect(new Set(refused.map(reasonIn))).to.deep.equal(new Set(["INVITE_INVALID"]));
    const key = String(shown?.json.secret);
    for (const at of [service.http, other.http]) {
      const agents = await fetch(`${at}/v1/enforce/agents`, { headers: { "x-api-key": key } });
      expect(agents.status).to.equal(200);
    }
    for (const text of [secret, key]) expect(service.output()).not.to.include(text);
  });

  it("is not opened by a page of another site, nor by anything but a secret.", async () => {
    const { secret } = await invited("Bob");
    expect((await open(secret, service.http, { origin: "https://evil.example" })).status).to.equal(403);
    for (const wrong of [undefined, "", 7, [secret]]) {
      const refused = await open(wrong);
      expect([refused.status, reasonIn(refused)], String(wrong)).to.deep.equal([400, "INVALID_FIELD"]);
    }
    const got = await fetch(`${service.http}/dashboard/invite?secret=${secret}`);
    expect(got.status).to.equal(405);
    expect((await open(secret)).status).to.equal(200);
  });

  it("counts wrong secrets as wrong keys of their address.", async () => {
    const reasons = new Set<unknown>();
    for (let count = 0; count < 80; count++) reasons.add(reasonIn(await open(`acpi_${"a".repeat(52)}`)));
    expect(reasons).to.deep.equal(new Set(["INVITE_INVALID", "TOO_MANY_WRONG_KEYS"]));
  });
});
