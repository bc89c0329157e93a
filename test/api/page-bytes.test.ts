import { toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import { ListDecisionsResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ListEscalationsResponseSchema } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { MAX_PAGE_BYTES, type PageRequest, pageFrom, readPage } from "../../src/registry/page.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

/** What clients of gRPC accept unless they are told otherwise, bytes. */
const CLIENT_LIMIT = 4_194_304;
const COUNT = 9;

interface ListPage<T> {
  readonly items: readonly T[];
  readonly bytes: number;
  readonly nextPageToken: string | undefined;
}

/** All items of a list, asked for 500 at a time. Expects each page to hold something and not too much. */
async function walk<T>(list: (pageToken: string) => Promise<ListPage<T>>): Promise<{ items: T[]; pages: number }> {
  const items: T[] = [];
  let pages = 0;
  for (let token: string | undefined = ""; token !== undefined; pages++) {
    const page: ListPage<T> = await list(token);
    expect(page.items).to.not.be.empty;
    expect(page.bytes).to.be.below(CLIENT_LIMIT);
    items.push(...page.items);
    token = page.nextPageToken || undefined;
  }
  return { items, pages };
}

describe("a page of large items", () => {
  let test: TestWorkspace;
  let agentId: string;

  before(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
    const conditions = { matchActionTypes: ["*"] };
    await test.mandate([{ type: RuleType.ACTION, decision: Decision.ESCALATE, conditions }]);
    for (let index = 0; index < COUNT; index++)
      await test.intercept({ agentId, actionType: "send", metadata: { index, text: "x".repeat(900_000) } });
  });

  after(() => test.close());

  it("is cut by bytes, and the list goes on: escalations.", async () => {
    const { items, pages } = await walk(async (pageToken) => {
      const page = await test.escalations.listEscalations({ pageSize: 500, pageToken });
      const bytes = toBinary(ListEscalationsResponseSchema, page).length;
      return { items: page.escalations, bytes, nextPageToken: page.nextPageToken };
    });
    expect(new Set(items.map(({ escalationId }) => escalationId)).size).to.equal(COUNT);
    expect([items.length, pages]).to.deep.equal([COUNT, COUNT]);
  });

  for (const ofAgent of [false, true]) {
    it(`is cut by bytes, and the list goes on: decisions${ofAgent ? " of an agent" : ""}.`, async () => {
      const { items, pages } = await walk(async (pageToken) => {
        const page = await test.enforcement.listDecisions({
          pageSize: 500,
          pageToken,
          ...(ofAgent ? { agentId } : {}),
        });
        const bytes = toBinary(ListDecisionsResponseSchema, page).length;
        return { items: page.decisions, bytes, nextPageToken: page.nextPageToken };
      });
      expect(new Set(items.map(({ decisionId }) => decisionId)).size).to.equal(COUNT);
      expect([items.length, pages]).to.deep.equal([COUNT, 3]);
    });
  }
});

interface Row {
  readonly seq: number;
  readonly text: string;
}

const seqOf = ({ seq }: Row): number => seq;
const rowsOf = (count: number, length: number): Row[] =>
  Array.from({ length: count }, (_, seq) => ({ seq, text: "x".repeat(length) }));

describe("a page by bytes", () => {
  it("holds one item that is larger than a page.", () => {
    const page = pageFrom(rowsOf(3, MAX_PAGE_BYTES + 1), 500, seqOf);
    expect([page.items.length, page.next]).to.deep.equal([1, 0]);
  });

  it("is the last one when nothing is left, whatever its size.", () => {
    expect(pageFrom(rowsOf(1, MAX_PAGE_BYTES + 1), 500, seqOf).next).to.equal(undefined);
    expect(pageFrom(rowsOf(3, 10), 3, seqOf).next).to.equal(undefined);
  });

  for (const { count, length, read, shown } of [
    { count: 400, length: 1_000_000, read: 16, shown: 3 },
    { count: 40, length: 10, read: 40, shown: 40 },
    { count: 600, length: 10, read: 501, shown: 500 },
    { count: 16, length: 10, read: 16, shown: 16 },
  ]) {
    it(`reads ${read} of ${count} rows of ${length} characters and shows ${shown}.`, async () => {
      const rows = rowsOf(count, length);
      let asked = 0;
      const page = await readPage({ size: 500 }, seqOf, async ({ size, after = -1 }: PageRequest) => {
        const chunk = rows.slice(after + 1, after + 2 + size);
        asked += chunk.length;
        return chunk;
      });
      expect([asked, page.items.length]).to.deep.equal([read, shown]);
      expect(page.next).to.equal(shown === count ? undefined : shown - 1);
    });
  }
});
