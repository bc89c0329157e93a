import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { Agent, request } from "node:http";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { metricsOf, metricsText, type Sample, samplesFrom, sumOf } from "../support/metrics.ts";
import { startServiceProcess, type TestServiceProcess } from "../support/service.ts";
import { escalateReviews, until, workersOf } from "../workers/harness.ts";

const WORKERS = 2;
const CONNECTIONS = 8;
const CALLS = 40;
/** Milliseconds between two looks at the page. */
const LOOK_MS = 200;

const DECISIONS = "acp_decisions_total";
/** Series that only grow. */
const GROWS = /_(total|bucket|sum|count)$/;

const keyOf = ({ name, labels }: Sample): string => `${name}${JSON.stringify(Object.entries(labels).sort())}`;

/** Rethrows all but the end of a connection that a stopping worker had just accepted. */
function unlessCutOff(error: unknown): void {
  if (!(error instanceof TypeError && error.message === "fetch failed")) throw error;
}

describe("the metrics of several workers", function () {
  this.timeout(240_000);
  let service: TestServiceProcess;
  let agentId: string;
  /** Decisions that were asked for. */
  let asked = 0;
  /** Highest value that each series which only grows has shown. */
  const highest = new Map<string, number>();

  before(async () => {
    service = await startServiceProcess({ env: { ACP_WORKERS: String(WORKERS) } });
    await until("all serve", () => workersOf(service).size === WORKERS);
    agentId = await service.agent();
  });
  after(() => service?.stop());

  /** Reads the page; fails if a counter went back, or was there and is not. */
  async function look(): Promise<readonly Sample[]> {
    const samples = await metricsOf(service.http);
    const shown = new Map(samples.filter(({ name }) => GROWS.test(name)).map((each) => [keyOf(each), each.value]));
    for (const [key, value] of highest) expect(shown.get(key), key).to.be.at.least(value);
    for (const [key, value] of shown) highest.set(key, value);
    return samples;
  }

  /** Looks at the page while a worker ends and another takes its place. */
  async function untilReplaced(victim: number): Promise<void> {
    while ([...workersOf(service).values()].includes(victim)) {
      await look().catch(unlessCutOff);
      await delay(LOOK_MS);
    }
  }

  /** Decides an action on a connection, and returns the connection. */
  async function decide(agent: Agent, actionType = "note.write"): Promise<Socket> {
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json" };
    const sent = request(`${service.http}/v1/enforce/intercept`, { method: "POST", agent, headers });
    sent.end(JSON.stringify({ agent_id: agentId, action_type: actionType, action_content: `${asked}` }));
    const [response] = await once(sent, "response");
    response.resume();
    await once(response, "end");
    expect(response.statusCode).to.equal(200);
    asked += 1;
    return sent.socket as Socket;
  }

  function expectAsked(samples: readonly Sample[]): void {
    expect(sumOf(samples, DECISIONS)).to.equal(asked);
    expect(sumOf(samples, "acp_decision_seconds_count")).to.equal(asked);
    expect(sumOf(samples, "acp_batch_size_sum")).to.equal(asked);
  }

  /** Has both workers decide; returns for each connection whether it is still open. */
  async function decideOnAll(): Promise<{ readonly open: ReadonlySet<Socket>; close(): void }> {
    const agents = Array.from({ length: CONNECTIONS }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
    const open = new Set<Socket>();
    for (const agent of agents) {
      for (let count = 0; count < CALLS / CONNECTIONS; count++) open.add(await decide(agent));
    }
    expect(open.size).to.equal(CONNECTIONS);
    for (const socket of open) socket.once("close", () => open.delete(socket));
    return { open, close: () => agents.forEach((agent) => void agent.destroy()) };
  }

  it("are those of one service: no series names a worker, and none is there twice.", async () => {
    const { close } = await decideOnAll();
    close();
    const text = await metricsText(service.http);
    const samples = samplesFrom(text);
    expect(samples.filter(({ labels }) => "worker" in labels)).to.deep.equal([]);
    expect(new Set(samples.map(keyOf)).size).to.equal(samples.length);
    expectAsked(samples);
    const { status, stdout, stderr } = spawnSync("promtool", ["check", "metrics"], { input: text, encoding: "utf8" });
    expect([status, stdout, stderr]).to.deep.equal([0, "", ""]);
  });

  it("keep what a worker counted that is killed, and never go back.", async () => {
    const { open, close } = await decideOnAll();
    expectAsked(await look());
    const [victim = 0] = workersOf(service).values();
    process.kill(victim, "SIGKILL");
    // Until then the primary would give it new connections.
    await until("its end is noticed", () => service.output().includes(`"workerPid":${victim},"ending"`));
    await until("its connections are closed", () => open.size < CONNECTIONS);
    expect(open.size).to.be.above(0);
    expectAsked(await look());
    await untilReplaced(victim);
    close();
    (await decideOnAll()).close();
    expectAsked(await look());
  });

  it("keep what a worker counted until it ended, when it is told to stop.", async () => {
    const { close } = await decideOnAll();
    const [victim = 0] = workersOf(service).values();
    process.kill(victim, "SIGTERM");
    close();
    await untilReplaced(victim);
    expectAsked(await look());
  });

  it("tell once what all workers know, and add up what each has of its own.", async () => {
    await escalateReviews(service.admin);
    const agent = new Agent();
    for (let count = 0; count < 3; count++) await decide(agent, "review.send");
    const samples = await look();
    const values = (name: string) => samples.filter((each) => each.name === name).map(({ value }) => value);
    expect(values("acp_escalations_pending")).to.deep.equal([3]);
    expect(values("acp_database_up")).to.deep.equal([1]);
    expect(values("acp_build_info")).to.deep.equal([1]);
    expect(values("nodejs_version_info")).to.deep.equal([1]);
    expect(values("acp_webhooks_waiting")).to.deep.equal([0]);
    expect(values("acp_queue_length")).to.deep.equal([0]);
    // Each worker has looked at its database for the page, on a connection of its own.
    expect(sumOf(samples, "acp_pool_connections")).to.be.at.least(WORKERS);
  });

  it("add up the memory, files and time of all processes, which started with the service.", async () => {
    const samples = await look();
    const pids = [service.pid, ...workersOf(service).values()];
    const residents = await Promise.all(
      pids.map(async (pid) => {
        const status = await readFile(`/proc/${pid}/status`, "utf8");
        return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024;
      }),
    );
    const resident = residents.reduce((sum, each) => sum + each);
    expect(sumOf(samples, "process_resident_memory_bytes") / resident).to.be.within(0.8, 1.2);
    const [first, ...others] = samples.filter(({ name }) => name === "process_start_time_seconds");
    expect(others).to.deep.equal([]);
    const { ctimeMs } = await stat(`/proc/${service.pid}`);
    expect(first?.value).to.be.within(ctimeMs / 1_000 - 5, ctimeMs / 1_000 + 5);
  });

  it("have the counts of a worker that does not answer.", async () => {
    const [frozen = 0] = workersOf(service).values();
    process.kill(frozen, "SIGSTOP");
    try {
      // The first may be given to the frozen one, which is asked for nothing more then.
      const samples = samplesFrom(await Promise.any([metricsText(service.http), metricsText(service.http)]));
      expectAsked(samples);
    } finally {
      process.kill(frozen, "SIGCONT");
    }
    expectAsked(await look());
  });
});
