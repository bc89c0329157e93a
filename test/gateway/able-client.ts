/* Clients that declare every ability of their generation, answer alike each time, and keep what they were asked. */
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
import { type AnyClient, asking, connectStateless } from "./harness.ts";

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

/** The abilities that a stateless client can have too: it runs no tasks for a server. */
export const STATELESS_CAPABILITIES = { sampling: {}, elicitation: CAPABILITIES.elicitation, roots: {} };

const sampled = () => ({
  model: "none",
  role: "assistant" as const,
  content: { type: "text" as const, text: "The tide turns at six." },
});
const elicited = (mode: unknown) => {
  const content = { name: "Ada", integer: 7, interpretation: "historical", favoriteColor: "green" };
  return { action: "accept" as const, ...(mode === "url" ? {} : { content }) };
};

/** Connects a stateless client. */
export async function connectAbleStateless(url: URL, headers: Readonly<Record<string, string>>): Promise<AbleClient> {
  const asked: Asked[] = [];
  const client = await connectStateless(url, headers, STATELESS_CAPABILITIES);
  client.setRequestHandler("roots/list", () => ({ roots: ROOTS }));
  client.setRequestHandler("sampling/createMessage", ({ method, params }) => {
    asked.push({ method, params });
    return sampled();
  });
  client.setRequestHandler("elicitation/create", ({ method, params }) => {
    asked.push({ method, params });
    return elicited(params.mode);
  });
  return { asked, ...asking(client) };
}

/** Connects a client with every ability, or with some. */
export async function connectAble(transport: Transport, capabilities: object = CAPABILITIES): Promise<AbleClient> {
  const asked: Asked[] = [];
  const taskStore = new InMemoryTaskStore();
  const client = new Client({ name: "test", version: "1" }, { capabilities, taskStore });
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: ROOTS }));
  client.setRequestHandler(CreateMessageRequestSchema, ({ method, params }, extra) => {
    asked.push({ method, params });
    return answer(sampled(), params, extra as never) as never;
  });
  client.setRequestHandler(ElicitRequestSchema, ({ method, params }, extra) => {
    asked.push({ method, params });
    return answer(elicited(params.mode), params, extra as never) as never;
  });
  await client.connect(transport);
  const { request, close } = asking(client);
  return {
    asked,
    request,
    async close() {
      await close();
      taskStore.cleanup();
    },
  };
}
