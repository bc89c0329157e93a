import type { MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import {
  type BacktestReport,
  type BacktestRequestSchema,
  DryRunService,
  type FindBacktestRequestSchema,
} from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { requestErrorFrom } from "../../src/client/request-error.ts";
import { withClient } from "../support/database.ts";
import { actionRule } from "../support/harness.ts";
import { connect, startService, type TestService } from "../support/service.ts";

type Question = MessageInitShape<typeof BacktestRequestSchema>;

const reasonOf = (call: Promise<unknown>): Promise<string | null | undefined> =>
  call.then(
    () => undefined,
    (error: unknown) => requestErrorFrom(error).reason,
  );

describe("a backtest that is kept", () => {
  let service: TestService;
  let operator: ControlPlane;
  let auditor: ControlPlane;
  let elsewhere: ControlPlane;
  before(async () => {
    service = await startService();
    const agentId = await service.agent("payer");
    for (const action_type of ["pay", "pay", "look"])
      await service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type });
    const keyOf = async (role: string): Promise<ControlPlane> => {
      const { secret } = await service.rest("POST /v1/admin/keys", { name: role, role, owner: role });
      return connect({ ...service, adminKey: String(secret) });
    };
    operator = await keyOf("operator");
    auditor = await keyOf("auditor");
    elsewhere = connect({ ...service, adminKey: (await service.workspace("elsewhere")).key });
  });
  after(async () => {
    for (const each of [operator, auditor, elsewhere]) each.close();
    await service?.stop();
  });

  const draft = (name: string, actionType = "pay") => ({ name, rules: [actionRule(Decision.BLOCK, actionType)] });
  const run = async (question: Question, as = operator): Promise<BacktestReport | undefined> => {
    let report: BacktestReport | undefined;
    for await (const message of as.client(DryRunService).backtest(question)) report = message.report ?? report;
    return report;
  };
  const get = async (backtestId: string | undefined, as = operator) =>
    (await as.client(DryRunService).getBacktest({ backtestId: backtestId ?? "" })).backtest;
  const find = async (question: MessageInitShape<typeof FindBacktestRequestSchema>, as = operator) =>
    (await as.client(DryRunService).findBacktest(question)).backtest;
  const query = (text: string, values: readonly unknown[] = []) =>
    withClient(service.database.url, (client) => client.query(text, [...values]));

  it("is read by others of the workspace, with its question, its numbers and a window that gives them again.", async () => {
    const report = await run({ drafts: [draft("kept")], onlyDrafts: true, keep: true });
    expect(report?.backtestId).to.match(/^bkt_[a-z2-7]{26}$/);
    const kept = await get(report?.backtestId, service.admin);
    expect(kept).to.deep.include({ backtestId: report?.backtestId, onlyDrafts: true, createdByName: "operator" });
    expect(kept?.drafts.map(({ name }) => name)).to.deep.equal(["kept"]);
    expect([kept?.report?.stricter, kept?.report?.replayed, kept?.report?.agents.length]).to.deep.equal([2n, 3n, 0]);
    await service.rest("POST /v1/enforce/intercept", { agent_id: await service.agent(), action_type: "pay" });
    const { drafts = [], archives = [], lists = [], until, onlyDrafts = false } = kept ?? {};
    expect(until).to.not.equal(undefined);
    const again = await run({ drafts, archives, lists, onlyDrafts, ...(until !== undefined && { until }) });
    expect([again?.stricter, again?.replayed, again?.backtestId]).to.deep.equal([2n, 3n, undefined]);
  });

  it("is found by its text, however it is written, and the last one of several.", async () => {
    expect(await find({ drafts: [draft("found")] })).to.equal(undefined);
    await run({ drafts: [draft("found")], keep: true });
    const last = await run({ drafts: [{ ...draft("  found "), priority: 0 }], keep: true });
    await run({ drafts: [draft("found", "look")], keep: true });
    await run({ drafts: [draft("found")] });
    expect((await find({ drafts: [draft("found")] }))?.backtestId).to.equal(last?.backtestId);
    expect(await find({ drafts: [{ ...draft("found"), replacesMandateId: "mnd_x" }] })).to.equal(undefined);
    expect(await find({ drafts: [draft("found")] }, elsewhere)).to.equal(undefined);
  });

  it("shows its text to no auditor and no other workspace.", async () => {
    const report = await run({ drafts: [draft("secret")], keep: true });
    expect(await reasonOf(get(report?.backtestId, elsewhere))).to.equal("BACKTEST_NOT_FOUND");
    expect(await reasonOf(get(report?.backtestId, auditor))).to.equal("ROLE_NOT_ALLOWED");
    expect(await reasonOf(find({ drafts: [draft("secret")] }, auditor))).to.equal("ROLE_NOT_ALLOWED");
    expect(await reasonOf(run({ keep: true }, auditor))).to.equal("ROLE_NOT_ALLOWED");
    expect((await run({}, auditor))?.backtestId).to.equal(undefined);
  });

  it("is not kept if its question is too large, which is said before it runs.", async () => {
    const rules = Array.from({ length: 150 }, (_, index) => ({
      ...actionRule(Decision.BLOCK, `a${index}`),
      description: "d".repeat(490),
    }));
    const question = { drafts: [1, 2, 3, 4].map((each) => ({ name: `large ${each}`, rules })) };
    expect((await run(question))?.replayed).to.equal(4n);
    expect(await reasonOf(run({ ...question, keep: true }))).to.equal("INVALID_FIELD");
  });

  it("is gone after a month, and when 100 newer ones are kept.", async () => {
    const report = await run({ drafts: [draft("old")], keep: true });
    const id = report?.backtestId ?? "";
    const { rows } = await query("select expires_at_ms - created_at_ms as kept from backtest where backtest_id = $1", [
      id,
    ]);
    expect(Number(rows[0]?.kept)).to.equal(30 * 86_400_000);
    const copied = `insert into backtest select workspace_id, backtest_id || n, question, question_digest, since_ms, until_ms, agent_id,
      only_drafts, report, created_by, created_at_ms + 1, expires_at_ms from backtest, generate_series(1, 120) n where backtest_id = $1`;
    await query(copied, [id]);
    const next = await run({ drafts: [draft("newest")], keep: true });
    const kept = await query("select backtest_id from backtest where workspace_id = 'default'");
    expect(kept.rowCount).to.equal(100);
    expect(kept.rows.map(({ backtest_id }) => backtest_id))
      .to.include(next?.backtestId)
      .and.not.include(id);
    await query("update backtest set expires_at_ms = 1 where backtest_id = $1", [next?.backtestId]);
    expect(await reasonOf(get(next?.backtestId))).to.equal("BACKTEST_NOT_FOUND");
    expect(await find({ drafts: [draft("newest")] })).to.equal(undefined);
  });
});
