import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { CheckpointKeeper } from "../../src/log/checkpoint-keeper.ts";
import { CheckpointReceiver } from "../../src/log/checkpoint-receiver.ts";
import { agentctl } from "../cli/harness.ts";
import { until } from "../gateway/until.ts";
import { startService } from "../support/service.ts";

type Answer = (response: ServerResponse) => void;

const kept: Answer = (response) => response.writeHead(204).end();
const status = (code: number, headers = {}): Answer => {
  return (response) => response.writeHead(code, headers).end("hunter2");
};

describe("the receiver of kept checkpoints", () => {
  let server: Server;
  let url: URL;
  let answer: Answer;
  let got: { readonly body: string; readonly headers: IncomingMessage["headers"]; readonly path: string | undefined }[];

  beforeEach(async () => {
    got = [];
    answer = kept;
    server = createServer(async (request, response) => {
      got.push({ body: await text(request), headers: request.headers, path: request.url });
      answer(response);
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/kept/s3cret`);
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  /** Keeps checkpoints of two logs, of which the first has three entries. */
  function keeperOf(receiver: CheckpointReceiver) {
    const sizes = new Map([
      ["v", 3],
      ["w", 1],
    ]);
    const warnings: string[] = [];
    const keeper = new CheckpointKeeper({
      store: receiver,
      pool: {
        query: async () => ({ rows: [...sizes].map(([workspaceId, size]) => ({ workspaceId, size })) }),
      } as never,
      vault: {
        checkpoint: async (workspaceId) =>
          ({ treeSize: sizes.get(workspaceId), note: `log/${workspaceId}\n${sizes.get(workspaceId)}\n` }) as never,
      },
      log: { warn: (details: object) => void warnings.push(JSON.stringify(details)) },
      everyMs: 3_600_000,
    });
    return { keeper, sizes, warnings };
  }
  const bodies = () => got.map(({ body }) => body);

  it("gets the signed checkpoints of a service, which its log contains later.", async () => {
    const folder = await mkdtemp(join(tmpdir(), "acp-received-"));
    const service = await startService({ env: { ACP_CHECKPOINT_URL: url.href, ACP_CHECKPOINT_TOKEN: "hunter2" } });
    try {
      await until(async () => got.length > 0);
      const [first] = got;
      expect([first?.path, first?.headers.authorization]).to.deep.equal(["/kept/s3cret", "Bearer hunter2"]);
      expect(first?.headers["content-type"]).to.equal("text/plain; charset=utf-8");
      await service.agent();
      const path = join(folder, "received");
      await writeFile(path, `${bodies().join("\n")}\n`);
      const { http, adminKey } = service;
      const asked = ["vault", "verify", "--url", http, "--json", "--against", path];
      const { code, stdout } = await agentctl(asked, { AGENTCTL_KEY: adminKey });
      expect(code, stdout).to.equal(0);
    } finally {
      await service.stop();
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("gets a checkpoint of each log that has grown, and the last ones when the service ends.", async () => {
    const { keeper, sizes } = keeperOf(new CheckpointReceiver(url, undefined));
    await keeper.start();
    await keeper.keep();
    expect(bodies()).to.deep.equal(["log/v\n3\n", "log/w\n1\n"]);
    expect(got[0]?.headers).not.to.have.property("authorization");
    sizes.set("w", 5);
    await keeper.close();
    expect(bodies().slice(2)).to.deep.equal(["log/w\n5\n"]);
  });

  const faults: readonly (readonly [string, Answer, RegExp])[] = [
    ["fails", status(503), /answered with status 503/],
    ["redirects elsewhere", status(307, { location: "http://127.0.0.1:1/" }), /answered with status 307/],
    ["hangs up", (response) => response.destroy(), /did not answer/],
    ["never answers", () => undefined, /did not answer/],
    ["refuses with a text without end", (response) => void response.writeHead(400).write("hunter2"), /status 400/],
  ];
  for (const [what, faulty, reason] of faults) {
    it(`gets the present checkpoints with the next look after it ${what}.`, async () => {
      const { keeper, sizes, warnings } = keeperOf(new CheckpointReceiver(url, "hunter2", 500));
      answer = faulty;
      await keeper.start();
      await keeper.keep();
      expect(bodies(), "the first fault ends a look").to.deep.equal(["log/v\n3\n", "log/v\n3\n"]);
      expect(warnings).to.have.length(2);
      expect(warnings.join()).to.match(reason);
      expect(warnings.join()).not.to.match(/hunter2|s3cret/);
      answer = kept;
      sizes.set("v", 4);
      await keeper.close();
      expect(bodies().slice(2)).to.deep.equal(["log/v\n4\n", "log/w\n1\n"]);
    });
  }
});
