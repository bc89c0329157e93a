import { createAuthority, createCredential, createFederationToken } from "../authority/create.ts";
import type { AuthorityDraft } from "../authority/draft.ts";
import { endAuthority } from "../authority/end.ts";
import { getAuthority, listAuthority } from "../authority/find.ts";
import type { SigningKeys } from "../authority/signing-key.ts";
import type { AuthorityView } from "../authority/view.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Authenticator } from "../registry/authenticator.ts";
import type { AuthorityKind } from "../state/control-changes.ts";
import type { Database } from "../store/database.ts";
import type { CallContext } from "./context.ts";
import { decodePageToken, nextPageToken, pageKind, pageSizeFrom } from "./paging.ts";

/** What the authority service works with. */
export interface AuthorityServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
  /** Signs and verifies federation tokens. */
  readonly keys: SigningKeys;
  /** Hears of every credential and token that is ended here. */
  readonly authenticator: Pick<Authenticator, "forget">;
}

/** A request for a page of one kind. */
interface ListRequest {
  readonly pageSize: number;
  readonly pageToken: string;
  readonly agentId: string;
}

/** What all kinds do alike. */
export function createAuthorityCalls({ logs, database, keys, authenticator }: AuthorityServiceOptions) {
  const source = { logs, database };
  return {
    create: async (draft: AuthorityDraft, { caller }: CallContext): Promise<AuthorityView> =>
      createAuthority(await logs.of(caller.workspaceId), caller.keyId, draft),

    createCredential: async (draft: AuthorityDraft, { caller }: CallContext) =>
      createCredential(await logs.of(caller.workspaceId), caller.keyId, draft),

    createFederationToken: async (draft: AuthorityDraft, { caller }: CallContext) =>
      createFederationToken(await logs.of(caller.workspaceId), caller.keyId, draft, keys),

    get: (kind: AuthorityKind, id: string, { caller }: CallContext): Promise<AuthorityView> =>
      getAuthority(source, caller.workspaceId, kind, id),

    async list<T>(
      kind: AuthorityKind,
      messageFrom: (view: AuthorityView) => T,
      request: ListRequest,
      { caller }: CallContext,
    ): Promise<{ items: T[]; nextPageToken: string | undefined }> {
      const agentId = request.agentId === "" ? undefined : request.agentId;
      const list = pageKind(kind, agentId);
      const page = { size: pageSizeFrom(request), after: decodePageToken(list, request.pageToken) };
      const { items, next } = await listAuthority(source, caller.workspaceId, { kind, agentId }, page);
      return { items: items.map(messageFrom), nextPageToken: nextPageToken(list, next) };
    },

    async end(kind: AuthorityKind, id: string, { caller }: CallContext): Promise<AuthorityView> {
      const view = await endAuthority(await logs.of(caller.workspaceId), caller.keyId, { kind, id });
      if (kind === "credential" || kind === "federation_token") authenticator.forget(caller.workspaceId);
      return view;
    },
  };
}

/** What all kinds do alike. */
export type AuthorityCalls = ReturnType<typeof createAuthorityCalls>;
