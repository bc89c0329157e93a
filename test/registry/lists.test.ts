import { createHash } from "node:crypto";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ListKind } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { coldState, comparable, foldedState } from "../log/comparable.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import {
  callerWith,
  failureOf,
  fieldsOf,
  openWorkspace,
  reasonOf,
  settled,
  type TestWorkspace,
} from "../support/harness.ts";
import { withOwner } from "../support/owner.ts";

const digestOf = (values: readonly string[]): string =>
  createHash("sha256")
    .update(canonicalJson([...values].sort()))
    .digest("hex");
const numbered = (count: number, from = 0): string[] => Array.from({ length: count }, (_, index) => `v${from + index}`);

describe("lists of a workspace", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace({ replicas: 2 });
    agentId = await test.agent();
  });
  after(async () => {
    assertIntact(await readLog(test.url));
    await test.close();
  });

  const put = (name: string, values: readonly string[], more: object = {}) =>
    test.lists.putList({ name, kind: ListKind.TEXT, values: [...values], ...more });
  const add = (name: string, values: readonly string[], by = test.lists) =>
    by.addListValues({ name, values: [...values] });
  const remove = (name: string, values: readonly string[]) =>
    test.lists.removeListValues({ name, values: [...values] });
  const seqNow = async (): Promise<number> => (await test.log.caughtUp()).seq;
  const lastChange = async () => {
    const bodies = (await readLog(test.url)).entries.map(({ body }) => JSON.parse(body));
    return bodies.findLast(({ type }) => type === "list_changed").list;
  };
  const blockUnless = (list: string, operator = "not_in_list", decision = Decision.BLOCK) =>
    test.mandate([
      {
        type: RuleType.METADATA,
        decision,
        conditions: {
          matchActionTypes: [`use.${list}`],
          rules: [{ field: "to", operator, value: { kind: { case: "stringValue", value: list } } }],
        },
      },
    ]);
  const decide = async (list: string, to: string, by = test.replicas[0]) => {
    const { decisionId, decision } = await test.intercept({ agentId, actionType: `use.${list}`, metadata: { to } }, by);
    const { body } = await test.receipt(decisionId);
    return { decision: Decision[decision], lists: body.lists ?? [] };
  };

  it("hold values in the form in which they compare, once each, under the digest of that form.", async () => {
    const { list, added, removed } = await put("payees", ["ACME", " acme ", "Ünal"]);
    expect([list?.size, list?.digest, added, removed]).to.deep.equal([2, digestOf(["acme", "ünal"]), 2, 0]);
    const got = await test.lists.getList({ name: "payees" });
    expect([got.values, got.nextPageToken]).to.deep.equal([["acme", "ünal"], undefined]);
    expect(await lastChange()).to.deep.equal({
      name: "payees",
      kind: "text",
      operation: "put",
      added: 2,
      removed: 0,
      size: 2,
      digest_before: null,
      digest_after: digestOf(["acme", "ünal"]),
      added_values: ["acme", "ünal"],
      removed_values: [],
      is_cut: false,
    });
  });

  it("change in one sealed entry; what changes nothing seals nothing.", async () => {
    await put("changing", ["a", "b"]);
    expect((await add("changing", ["b", "C"])).added).to.equal(1);
    expect(await lastChange()).to.deep.include({ operation: "add", added: 1, removed: 0, added_values: ["c"] });
    expect((await remove("changing", ["A", "x"])).removed).to.equal(1);
    expect(await lastChange()).to.deep.include({
      operation: "remove",
      removed_values: ["a"],
      digest_before: digestOf(["a", "b", "c"]),
      digest_after: digestOf(["b", "c"]),
    });
    const { added, removed } = await put("changing", ["c", "d"]);
    expect([added, removed]).to.deep.equal([1, 1]);
    const seq = await seqNow();
    expect((await add("changing", ["D"])).added).to.equal(0);
    expect((await remove("changing", ["z"])).removed).to.equal(0);
    await put("changing", ["D", "C"]);
    expect(await seqNow()).to.equal(seq);
  });

  it("are in force for the next decision on every process, whose receipt names them with their digest.", async () => {
    await put("known", ["acme"]);
    await blockUnless("known");
    for (const by of test.replicas) {
      expect((await decide("known", "Ａcme", by)).decision).to.equal("ALLOW");
      expect((await decide("known", "other", by)).decision).to.equal("BLOCK");
    }
    await add("known", ["other"], test.replicas[1]?.lists);
    for (const by of test.replicas) {
      expect(await decide("known", "other", by)).to.deep.equal({
        decision: "ALLOW",
        lists: [{ name: "known", digest: digestOf(["acme", "other"]), matched: ["other"] }],
      });
    }
  });

  it("of a process that was away follow the log through large and small changes.", async () => {
    const [, far] = test.replicas;
    await put("large", numbered(2_500));
    await add("large", ["one more"]);
    await remove("large", numbered(1_200));
    await put("large", numbered(1_500, 5_000), { kind: ListKind.HOST });
    await add("large", ["*.example.com"]);
    const { values, kind } = (await far?.log.caughtUp())?.lists.get("large") ?? {};
    expect([kind, values]).to.deep.equal(["host", [...numbered(1_500, 5_000), "*.example.com"].sort()]);
    expect((await test.lists.getList({ name: "large" })).list?.digest).to.equal(digestOf(values ?? []));
  });

  it("seal at most 1,000 values; the others stand under the digest.", async () => {
    await put("cut", numbered(700));
    await put("cut", numbered(900, 100));
    const change = await lastChange();
    expect([change.added, change.removed, change.is_cut]).to.deep.equal([300, 100, false]);
    await put("cut", numbered(1_500, 10_000));
    const cut = await lastChange();
    expect([cut.added, cut.removed, cut.is_cut]).to.deep.equal([1_500, 900, true]);
    expect(cut.added_values).to.deep.equal(numbered(1_500, 10_000).sort().slice(0, 1_000));
    expect(cut.removed_values).to.deep.equal([]);
    const { rows } = await test.database.pool.query(`select values from list_content where digest = $1 order by part`, [
      cut.digest_after,
    ]);
    expect(rows.flatMap(({ values }) => JSON.parse(values))).to.deep.equal(numbered(1_500, 10_000).sort());
  });

  /** Digests under which values are stored, and those that lists rest on. */
  async function storedDigests(): Promise<{ readonly stored: readonly string[]; readonly bases: readonly string[] }> {
    const digests = async (text: string): Promise<string[]> =>
      (await test.database.pool.query<{ digest: string }>(text)).rows.map(({ digest }) => digest);
    return {
      stored: await digests("select distinct digest from list_content order by digest"),
      bases: await digests(
        "select distinct base_digest as digest from named_list where base_digest is not null order by digest",
      ),
    };
  }
  const assertNoneUnused = async (): Promise<void> => {
    const { stored, bases } = await storedDigests();
    expect(stored).to.deep.equal(bases);
  };

  it("leave no values behind that no list rests on: after changes, deletions and refusals.", async () => {
    for (const first of [0, 3_000, 6_000]) await put("renewed", numbered(2_000, first));
    const { stored } = await storedDigests();
    expect(stored).to.include(digestOf(numbered(2_000, 6_000)));
    await assertNoneUnused();
    await put("twin", numbered(2_000, 6_000));
    await test.lists.deleteList({ name: "renewed" });
    expect((await coldState(test.database.pool)).lists.get("twin")?.values).to.have.length(2_000);
    await assertNoneUnused();
    await test.lists.deleteList({ name: "twin" });
    await assertNoneUnused();
    await put("small", ["a"]);
    const raced = put("small", numbered(2_000), { expectedDigest: digestOf([]) });
    expect(await reasonOf(raced)).to.equal("LIST_CHANGED");
    await assertNoneUnused();
  });

  it("are whole, whatever a process that ended left of their values.", async () => {
    const values = numbered(3_500).sort();
    const digest = digestOf(values);
    const write = (part: number, isLast: boolean, of = digest) =>
      test.database.pool.query("insert into list_content values ('default', $1, $2, $3, $4)", [
        of,
        part,
        JSON.stringify(values.slice(part * 1_000, part * 1_000 + 1_000)),
        isLast,
      ]);
    await write(3, true);
    await write(1, false);
    await write(0, true, digestOf(["of a change that never came"]));
    await put("resumed", values);
    expect((await coldState(test.database.pool)).lists.get("resumed")?.values).to.deep.equal(values);
    await assertNoneUnused();
  });

  it("keep their values when two processes put the same ones back and forth.", async () => {
    const contents = [0, 5_000, 10_000].map((first) => numbered(1_500, first));
    await put("swung", contents[0] as string[]);
    const calls = Array.from({ length: 24 }, (_, round) =>
      test.replicas[round % 2]?.lists.putList({
        name: round % 3 === 0 ? "swung" : `swung-${round % 2}`,
        kind: ListKind.TEXT,
        values: [...(contents[(round * 7) % 3] as string[])],
      }),
    );
    await Promise.all(calls);
    const state = await coldState(test.database.pool);
    for (const name of ["swung", "swung-0", "swung-1"]) {
      const { values = [], digest } = state.lists.get(name) ?? {};
      expect(digestOf(values), name).to.equal(digest);
      for (const { log } of test.replicas) expect((await log.caughtUp()).lists.get(name)?.values).to.deep.equal(values);
    }
    await assertNoneUnused();
  });

  it("decide on a process that was away while values came and went, and a mandate came to name them.", async () => {
    const [, far] = test.replicas;
    await far?.log.caughtUp();
    for (const first of [0, 2_000, 4_000]) await put("passed", numbered(1_800, first));
    await blockUnless("passed");
    await add("passed", ["one more"]);
    for (const [to, want] of [
      ["v4000", "ALLOW"],
      ["one more", "ALLOW"],
      ["v0", "BLOCK"],
    ] as const) {
      expect((await decide("passed", to, far)).decision, to).to.equal(want);
    }
    const mandates = (await far?.log.caughtUp())?.policies.mandates.values() ?? [];
    expect([...mandates].at(-1)?.compiled.violations).to.deep.equal([]);
  });

  it("are read anew on a process that could read the log, and not their values.", async () => {
    const [, far] = test.replicas;
    await far?.log.caughtUp();
    await put("unread", numbered(1_800));
    await put("unread", numbered(1_800, 2_000));
    await withOwner(test.ownerUrl, (client) => client.query("alter table named_list rename to named_list_away"));
    // It reads the log, and not the list.
    await far?.log.caughtUp().catch(() => undefined);
    await withOwner(test.ownerUrl, (client) => client.query("alter table named_list_away rename to named_list"));
    const state = await far?.log.caughtUp();
    expect(state?.lists.hasUnread).to.equal(false);
    expect(state?.lists.get("unread")?.values).to.deep.equal(numbered(1_800, 2_000).sort());
  });

  it("survive many changes beyond what their row holds.", async () => {
    const expected = new Set<string>();
    await put("many", []);
    for (let round = 0; round < 8; round++) {
      const values = numbered(400, round * 350);
      await add("many", values);
      for (const each of values) expected.add(each);
      const gone = numbered(120, round * 290);
      await remove("many", gone);
      for (const each of gone) expected.delete(each);
    }
    const state = await coldState(test.database.pool);
    expect(state.lists.get("many")?.values).to.deep.equal([...expected].sort());
    expect(state.lists.get("many")?.digest).to.equal(digestOf([...expected]));
  });

  it("have pages of values, also of those that contain a text.", async () => {
    await put("paged", numbered(12));
    const read = async (search: string): Promise<string[][]> => {
      const pages: string[][] = [];
      let pageToken = "";
      do {
        const page = await test.lists.getList({ name: "paged", search, pageSize: 3, pageToken });
        pages.push(page.values);
        pageToken = page.nextPageToken ?? "";
      } while (pageToken !== "");
      return pages;
    };
    const sorted = numbered(12).sort();
    expect((await read("")).flat()).to.deep.equal(sorted);
    expect(await read(" V1 ")).to.deep.equal([["v1", "v10", "v11"]]);
    expect(await read("none")).to.deep.equal([[]]);
  });

  it("are listed by name with the mandates that name them.", async () => {
    await put("z-last", ["a"]);
    const mandateId = await blockUnless("z-last");
    const { lists } = await test.lists.listLists({ pageSize: 500 });
    const names = lists.map(({ name }) => name);
    expect(names).to.deep.equal([...names].sort());
    const last = lists.at(-1);
    expect([last?.name, last?.uses, last?.usedBy[0]?.mandateId]).to.deep.equal(["z-last", 1, mandateId]);
    const page = await test.lists.listLists({ pageSize: 1 });
    const next = await test.lists.listLists({ pageSize: 1, pageToken: page.nextPageToken ?? "" });
    expect([page, next].flatMap((each) => each.lists.map(({ name }) => name))).to.deep.equal(names.slice(0, 2));
  });

  it("are not deleted while a mandate in force names them, in whatever mode.", async () => {
    await put("named", ["a"]);
    const mandateId = await blockUnless("named");
    const failure = await failureOf(test.lists.deleteList({ name: "named" }));
    expect(failure.metadata).to.deep.include({ list: "named", mandate_id: mandateId, mandates: "1" });
    expect(await reasonOf(test.lists.deleteList({ name: "named" }))).to.equal("LIST_IN_USE");
    await test.mandates.archiveMandate({ mandateId });
    await test.lists.deleteList({ name: "named" });
    expect(await lastChange()).to.deep.include({ operation: "delete", removed: 1, digest_after: null });
    for (const call of [
      test.lists.getList({ name: "named" }),
      test.lists.deleteList({ name: "named" }),
      add("named", ["a"]),
      remove("named", ["a"]),
    ]) {
      expect(await reasonOf(call)).to.equal("LIST_NOT_FOUND");
    }
    expect((await test.replicas[1]?.log.caughtUp())?.lists.get("named")).to.equal(undefined);
    const [field] = await fieldsOf(blockUnless("named"));
    expect(field).to.equal("rules[0].conditions.rules[0].value");
    expect(await reasonOf(blockUnless("named"))).to.equal("MANDATE_INVALID");
  });

  it("are not deleted while an expression looks into them; its generated tests pass.", async () => {
    await put("looked-into", ["acme"]);
    const when = 'metadata.to == "x" || !in_list(metadata.to, "looked-into")';
    const mandateId = await test.mandate([
      { type: RuleType.ACTION, decision: Decision.BLOCK, when, conditions: { matchActionTypes: ["use.looked-into"] } },
    ]);
    expect(await reasonOf(test.lists.deleteList({ name: "looked-into" }))).to.equal("LIST_IN_USE");
    expect(await decide("looked-into", "ACME")).to.deep.equal({
      decision: "ALLOW",
      lists: [{ name: "looked-into", digest: digestOf(["acme"]), matched: ["acme"] }],
    });
    expect((await decide("looked-into", "other")).decision).to.equal("BLOCK");
    await test.dryRuns.generateTests({ mandateId });
    expect((await test.dryRuns.runTests({ mandateId })).failed).to.equal(0);
  });

  it("change only from the expected digest, where one is given.", async () => {
    expect(await reasonOf(put("guarded", ["a"], { expectedDigest: digestOf([]) }))).to.equal("LIST_CHANGED");
    await put("guarded", ["a"], { expectedDigest: "" });
    expect(await reasonOf(put("guarded", ["b"], { expectedDigest: "" }))).to.equal("LIST_CHANGED");
    await put("guarded", ["b"], { expectedDigest: digestOf(["a"]) });
    expect((await test.lists.getList({ name: "guarded" })).values).to.deep.equal(["b"]);
  });

  it("lose no value when many are added at once, through two processes.", async () => {
    await put("crowded", numbered(1_100));
    const calls = Array.from({ length: 40 }, (_, index) =>
      add("crowded", [`new ${index}`], test.replicas[index % 2]?.lists),
    );
    expect((await settled(calls)).errors).to.deep.equal([]);
    const { values } = (await coldState(test.database.pool)).lists.get("crowded") ?? {};
    expect(values).to.deep.equal([...numbered(1_100), ...Array.from({ length: 40 }, (_, n) => `new ${n}`)].sort());
  });

  it("refuse the values that their kind does not take, and name each.", async () => {
    const bad = test.lists.putList({ name: "bad", kind: ListKind.HOST, values: ["a.b", "x y", "*", "https://a.b"] });
    expect(await fieldsOf(bad)).to.deep.equal(["values[1]", "values[2]", "values[3]"]);
    expect(await fieldsOf(put("bad", ["x".repeat(257)]))).to.deep.equal(["values[0]"]);
    expect(await fieldsOf(put("bad", ["\u200b"]))).to.deep.equal(["values[0]"]);
    for (const name of ["", "Upper", "a/b", "a b", "x".repeat(64), "é"])
      expect(await fieldsOf(put(name, [])), name).to.deep.equal(["name"]);
  });

  it("hold at most 100,000 values and 4 MiB.", async () => {
    await put("full", numbered(50_000));
    await add("full", numbered(50_000, 50_000));
    expect(await fieldsOf(add("full", ["one more"]))).to.deep.equal(["values"]);
    const long = Array.from({ length: 16_500 }, (_, index) => `${index} `.padEnd(256, "x"));
    expect(await fieldsOf(put("long", long))).to.deep.equal(["values"]);
    await test.lists.deleteList({ name: "full" });
  }).timeout(60_000);

  it("are changed by operators and read by auditors.", async () => {
    await put("roles", ["a"]);
    const by = (role: Role) => callerWith(test.adminCaller, role);
    await test.lists.addListValues({ name: "roles", values: ["b"] }, by(Role.OPERATOR));
    await test.lists.getList({ name: "roles" }, by(Role.AUDITOR));
    await test.lists.listLists({}, by(Role.AUDITOR));
    for (const call of [
      test.lists.putList({ name: "roles", kind: ListKind.TEXT }, by(Role.AUDITOR)),
      test.lists.addListValues({ name: "roles", values: ["c"] }, by(Role.AUDITOR)),
      test.lists.removeListValues({ name: "roles", values: ["c"] }, by(Role.AUDITOR)),
      test.lists.deleteList({ name: "roles" }, by(Role.AUDITOR)),
      test.lists.getList({ name: "roles" }, by(Role.AGENT)),
    ]) {
      expect(await reasonOf(call)).to.equal("ROLE_NOT_ALLOWED");
    }
  });

  it("are supposed by dry runs, in place of those in force, without a trace in the log.", async () => {
    await put("supposed", ["acme"]);
    await blockUnless("supposed");
    const seq = await seqNow();
    const action = { actionType: "use.supposed", metadata: { to: "other" } };
    const lists = [{ name: "supposed", kind: ListKind.TEXT, values: ["Other"] }];
    const probe = async (more: object) => (await test.dryRuns.probe({ agentId, ...action, ...more })).probe?.decision;
    expect([await probe({}), await probe({ lists })]).to.deep.equal([Decision.BLOCK, Decision.ALLOW]);
    const { preflight } = await test.dryRuns.preflight({ agentId, steps: [action], lists });
    expect(preflight?.allowed).to.equal(1);
    const drafts = [
      {
        name: "drafted",
        rules: [
          {
            type: RuleType.METADATA,
            decision: Decision.ESCALATE,
            conditions: {
              rules: [
                {
                  field: "to",
                  operator: "in_list",
                  value: { kind: { case: "stringValue" as const, value: "imagined" } },
                },
              ],
            },
          },
        ],
      },
    ];
    const imagined = [...lists, { name: "imagined", kind: ListKind.TEXT, values: ["other"] }];
    expect(await reasonOf(test.dryRuns.probe({ agentId, ...action, drafts }))).to.equal("MANDATE_INVALID");
    expect(await probe({ lists: imagined, drafts })).to.equal(Decision.ESCALATE);
    expect(
      await fieldsOf(test.dryRuns.probe({ agentId, ...action, lists: [{ ...lists[0], values: [""] }] })),
    ).to.deep.equal(["lists[0].values[0]"]);
    const auditor = callerWith(test.adminCaller, Role.AUDITOR);
    expect(await reasonOf(test.dryRuns.probe({ agentId, ...action, lists }, auditor))).to.equal("ROLE_NOT_ALLOWED");
    expect(await seqNow()).to.equal(seq);
  });

  it("are named by the trace of each comparison that looked into them, with what matched.", async () => {
    await put("traced", ["acme", "*.no-host"]);
    const value = { kind: { case: "stringValue" as const, value: "traced" } };
    const conditions = {
      rules: ["to", "cc"].map((field) => ({ field, operator: "in_list", value })),
      matchActionTypes: ["use.traced"],
    };
    const when = 'in_list(metadata.to, "traced") && !in_list(metadata.cc, "traced")';
    const mandateId = await test.mandate([{ type: RuleType.METADATA, decision: Decision.BLOCK, conditions, when }]);
    const metadata = { to: "ACME", cc: "other" };
    const { probe } = await test.dryRuns.probe({ agentId, actionType: "use.traced", metadata });
    const conditionsOf = probe?.trace.find((rule) => rule.mandateId === mandateId)?.conditions ?? [];
    const digest = digestOf(["*.no-host", "acme"]);
    const used = (matched: readonly string[]) => [{ name: "traced", digest, matched }];
    const plain = conditionsOf.map(({ path, holds, lists }) => ({
      path,
      holds,
      lists: lists.map(({ name, digest, matched }) => ({ name, digest, matched })),
    }));
    expect(plain.slice(0, 3)).to.deep.equal([
      { path: "to", holds: true, lists: used(["acme"]) },
      { path: "cc", holds: false, lists: used([]) },
      { path: "when", holds: true, lists: used(["acme"]) },
    ]);
    expect(plain.slice(3).flatMap(({ lists }) => lists)).to.deep.equal([]);
  });

  it("have generated tests of the mandates that name them, which pass.", async () => {
    for (const [name, kind, values] of [
      ["tested-texts", ListKind.TEXT, ["acme", "ünal"]],
      ["tested-hosts", ListKind.HOST, ["example.com", "*.corp.example"]],
      ["tested-domains", ListKind.EMAIL_DOMAIN, ["example.com", "*.corp.example"]],
    ] as const) {
      await test.lists.putList({ name, kind, values: [...values] });
      for (const operator of ["in_list", "not_in_list"]) {
        const mandateId = await blockUnless(name, operator);
        const { tests } = await test.dryRuns.generateTests({ mandateId });
        expect(tests.length).to.be.greaterThan(10);
        const decisions = new Set(tests.map(({ expected }) => expected?.decision));
        expect(decisions.size, `${name} ${operator}`).to.equal(2);
        expect((await test.dryRuns.runTests({ mandateId })).failed).to.equal(0);
      }
    }
  });

  it("are the same from the tables, from the entries alone, and on every process.", async () => {
    const { pool } = test.database;
    const { lastAtMs } = await test.log.caughtUp();
    const folded = await comparable(pool, await foldedState(pool), lastAtMs + 500);
    expect(folded.lists).to.have.length.above(5);
    const cold = await comparable(pool, await coldState(pool), lastAtMs + 500);
    for (const key of Object.keys(folded)) expect(cold[key as never], key).to.deep.equal(folded[key as never]);
    for (const { log } of test.replicas)
      expect(await comparable(pool, await log.caughtUp(), lastAtMs + 500)).to.deep.equal(folded);
  });

  it("stay as they were when the change cannot be written.", async () => {
    await put("kept", ["a"]);
    await withOwner(test.ownerUrl, (client) => client.query("alter table named_list rename to named_list_away"));
    const calls = [add("kept", ["b"]), put("kept", numbered(1_200)), test.lists.deleteList({ name: "kept" })];
    const { errors } = await settled<unknown>(calls);
    expect(errors).to.have.length(3);
    await withOwner(test.ownerUrl, (client) => client.query("alter table named_list_away rename to named_list"));
    expect((await test.lists.getList({ name: "kept" })).values).to.deep.equal(["a"]);
    expect((await add("kept", ["b"])).list?.digest).to.equal(digestOf(["a", "b"]));
  });
});
