import type { AuthorityStatus } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { TestWorkspace } from "../support/harness.ts";

/** What every kind's message has. */
export interface Shown {
  readonly status: AuthorityStatus;
  readonly endedAt?: object;
}

/** One kind of authority as a test handles it, whatever its messages are called. */
export interface Kind {
  readonly name: string;
  readonly prefix: string;
  create(agentId: string, over?: object): Promise<{ id: string; shown: Shown }>;
  get(id: string, key?: string): Promise<Shown | undefined>;
  end(id: string, key?: string): Promise<Shown | undefined>;
  list(request: object): Promise<{ ids: string[]; next: string | undefined }>;
}

/** What the kinds are made with, once the tests run. */
export interface KindsContext {
  readonly test: TestWorkspace;
  /** The grantor of the grants. */
  readonly lender: string;
}

/** Every kind of authority. The context is asked for when a kind is used. */
export function createKinds(context: () => KindsContext): readonly Kind[] {
  /** Builds a kind from the words of its methods and fields. */
  function kindOf(name: string, plural: string, prefix: string, init: (agentId: string) => object): Kind {
    const field = name[0]?.toLowerCase() + name.slice(1);
    const list = plural[0]?.toLowerCase() + plural.slice(1);
    type Reply = Record<string, Shown & Record<string, string>> & { nextPageToken?: string };
    const call = (method: string, request: object, key?: string): Promise<Reply> =>
      (context().test.authority as unknown as Record<string, (request: object, key?: string) => Promise<Reply>>)[
        method
      ]?.(request, key) ?? Promise.reject(new Error(`no method ${method}`));
    const idOf = (shown: Record<string, string> | undefined): string => shown?.[`${field}Id`] ?? "";
    return {
      name,
      prefix,
      async create(agentId, over = {}) {
        const shown = (await call(`create${name}`, { ...init(agentId), ...over }))[field];
        return { id: idOf(shown), shown: shown as Shown };
      },
      get: async (id, key) => (await call(`get${name}`, { [`${field}Id`]: id }, key))[field],
      end: async (id, key) => (await call(`end${name}`, { [`${field}Id`]: id }, key))[field],
      async list(request) {
        const reply = await call(`list${plural}`, request);
        return { ids: (reply[list] as unknown as Record<string, string>[]).map(idOf), next: reply.nextPageToken };
      },
    };
  }

  return [
    kindOf("Session", "Sessions", "ses", (agentId) => ({ agentId, purpose: "tidy up" })),
    kindOf("Credential", "Credentials", "crd", (agentId) => ({ agentId, name: "laptop" })),
    kindOf("Grant", "Grants", "grt", (agentId) => ({
      grantorAgentId: context().lender,
      granteeAgentId: agentId,
      actionTypes: ["mail.*"],
    })),
    kindOf("TemporalWindow", "TemporalWindows", "tmw", (agentId) => ({
      agentId,
      actionTypes: ["mail.send"],
      durationSeconds: 60n,
    })),
    kindOf("IntentContract", "IntentContracts", "itc", (agentId) => ({
      agentId,
      goal: "send the report",
      allowedActionTypes: ["mail.*"],
    })),
    kindOf("FederationToken", "FederationTokens", "fed", (agentId) => ({
      agentId,
      audience: "partner",
      allowedActionTypes: ["mail.*"],
      ttlSeconds: 60n,
    })),
    kindOf("McpToolPolicy", "McpToolPolicies", "mtp", (agentId) => ({
      agentId,
      server: "files",
      tool: "write_*",
      decision: Decision.BLOCK,
    })),
  ];
}
