/* A client of the generation with sessions that declares every ability, answers alike each time, and keeps what it was asked. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks";
import type { RequestHandlerExtra } from "@modelcontextprotocol/sdk/shared/protocol.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  type Result,
} from "@modelcontextprotocol/sdk/types.js";
import { type AnyClient, asking } from "./harness.ts";

/** Everything that a client may declare, tasks that it runs for the server included. */
const CAPABILITIES = {
  sampling: {},
  elicitation: { form: {}, url: {} },
  roots: { listChanged: true },
  tasks: { list: {}, cancel: {}, requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
};
const ROOTS = [{ uri: "file:///srv/books", name: "books" }, { uri: "file:///srv/plans" }];

/** A request of the server. */
export interface Asked {
  readonly method: string;
  readonly params: unknown;
}

/** A client with every ability, and the sampling and elicitation that the server asked of it, in their order. */
export interface AbleClient extends AnyClient {
  readonly asked: readonly Asked[];
}

/** Answers a request of the server: at once, or by a task that is finished already if the server asks for one. */
async function answer(result: Result, params: object, { taskStore }: RequestHandlerExtra<never, never>) {
  const { task } = params as { task?: { ttl?: number } };
  if (task === undefined) return result;
  if (taskStore === undefined) throw new Error("the client has no store of tasks");
  const created = await taskStore.createTask({ ...task, pollInterval: 10 });
  await taskStore.storeTaskResult(created.taskId, "completed", result);
  return { task: created };
}

/** Connects a client with every ability. */
export async function connectAble(transport: Transport): Promise<AbleClient> {
  const asked: Asked[] = [];
  const taskStore = new InMemoryTaskStore();
  const client = new Client({ name: "test", version: "1" }, { capabilities: CAPABILITIES, taskStore });
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: ROOTS }));
  client.setRequestHandler(CreateMessageRequestSchema, ({ method, params }, extra) => {
    asked.push({ method, params });
    const content = { type: "text", text: "The tide turns at six." };
    return answer({ model: "none", role: "assistant", content }, params, extra as never) as never;
  });
  client.setRequestHandler(ElicitRequestSchema, ({ method, params }, extra) => {
    asked.push({ method, params });
    const isForm = params.mode !== "url";
    const content = { name: "Ada", integer: 7, interpretation: "historical", favoriteColor: "green" };
    return answer({ action: "accept", ...(isForm && { content }) }, params, extra as never) as never;
  });
  await client.connect(transport);
  const { request, close } = asking(client);
  return {
    ...{ asked, request },
    async close() {
      await close();
      taskStore.cleanup();
    },
  };
}
