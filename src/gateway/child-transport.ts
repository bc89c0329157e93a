import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { Children, ChildSession } from "./children.ts";
import type { RpcMessage } from "./messages.ts";

/** Connects the official client with a server that is a command. The connection outlives the child, which is started again. */
export class ChildTransport implements Transport {
  readonly #session: ChildSession;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: <T extends JSONRPCMessage>(message: T) => void;

  constructor(server: McpServer, agentId: string | null, children: Pick<Children, "open">) {
    this.#session = children.open(server, agentId, {
      receive: (message) => this.onmessage?.(message as unknown as JSONRPCMessage),
    });
  }

  async start(): Promise<void> {
    // The child is started by the first message.
  }

  async send(message: JSONRPCMessage): Promise<void> {
    // Responses and faults of the child come as messages.
    void this.#session.send(message as unknown as RpcMessage);
  }

  async close(): Promise<void> {
    await this.#session.close();
    this.onclose?.();
  }
}
