import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  type PersonalValueSchema,
  RedactionService,
  type RedactionSettingsSchema,
  type RedactionWebhookSchema,
} from "../../gen/agentcontrol/v1/redaction_service_pb.js";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import {
  LEAKAGE_EVENT,
  type PersonalValue,
  type Redaction,
  type RedactionSettings,
  type RedactionWebhook,
  zonelessTime,
} from "../redaction/index.ts";
import { maskedUrl } from "../registry/secret-masks.ts";
import type { Caller } from "./context.ts";
import { namePageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition, type ServiceFunctions } from "./service.ts";

/** Parts that RedactionService needs. */
export interface RedactionServiceOptions {
  readonly redaction: Redaction;
}

type Functions = ServiceFunctions<typeof RedactionService>;

/** Throws WORKSPACE_NOT_FOUND unless the path names the key's own workspace. */
function assertOwn({ workspaceId: own }: Caller, { workspaceId }: { readonly workspaceId: string }): void {
  if (workspaceId === own) return;
  const message = `no workspace \`${workspaceId}\``;
  throw new ControlPlaneError(ErrorReason.WORKSPACE_NOT_FOUND, message, { workspace_id: workspaceId });
}

function webhookFrom(webhook: RedactionWebhook): MessageInitShape<typeof RedactionWebhookSchema> {
  const { webhookId: id, url, hasSecret, isActive, createdAtMs } = webhook;
  return { id, url, hasSecret, events: [LEAKAGE_EVENT], isActive, createdAt: zonelessTime(createdAtMs) };
}

function valueFrom({
  valueId: id,
  kind,
  masked,
  createdAtMs,
}: PersonalValue): MessageInitShape<typeof PersonalValueSchema> {
  return { id, kind, masked, createdAt: timestampFromMs(createdAtMs) };
}

function settingsFrom(settings: RedactionSettings, { role }: Caller): MessageInitShape<typeof RedactionSettingsSchema> {
  const { restoreValues, allowMedia, disabledKinds, allow, llmUrl, llmKey } = settings;
  const isPlain = role === Role.ADMIN || role === Role.OPERATOR;
  const own = llmUrl === undefined ? {} : { llmUrl: isPlain ? llmUrl : maskedUrl(llmUrl) };
  const lists = { disabledKinds: [...disabledKinds], allow: [...allow] };
  return { restoreValues, allowMedia, ...lists, ...own, hasLlmKey: llmKey !== undefined };
}

/** Creates the functions of RedactionService. */
export function createRedactionService({ redaction }: RedactionServiceOptions): ServiceDefinition {
  return defineService(RedactionService, {
    ...webhookFunctions(redaction),
    ...valueFunctions(redaction),
    ...settingsFunctions(redaction),
  });
}

function webhookFunctions({ webhooks }: Redaction) {
  return {
    async createRedactionWebhook(request, { caller }) {
      assertOwn(caller, request);
      const { url, secret } = request;
      return { ok: true, webhook: webhookFrom(await webhooks.create(caller, { url, secret })) };
    },

    async listRedactionWebhooks(request, { caller }) {
      assertOwn(caller, request);
      const page = namePageFrom(request, "redaction webhooks");
      const { items, next } = await webhooks.list(caller, page);
      return { ok: true, webhooks: items.map(webhookFrom), nextPageToken: page.tokenAfter(next) };
    },

    async getRedactionWebhook(request, { caller }) {
      assertOwn(caller, request);
      return { ok: true, webhook: webhookFrom(await webhooks.get(caller, request.webhookId)) };
    },

    async updateRedactionWebhook(request, { caller }) {
      assertOwn(caller, request);
      const { webhookId, url, isActive } = request;
      return { ok: true, webhook: webhookFrom(await webhooks.update(caller, webhookId, { url, isActive })) };
    },

    async deleteRedactionWebhook(request, { caller }) {
      assertOwn(caller, request);
      return { ok: true, webhook: webhookFrom(await webhooks.delete(caller, request.webhookId)) };
    },
  } satisfies Partial<Functions>;
}

function valueFunctions({ values }: Redaction) {
  return {
    async addPersonalValues(request, { caller }) {
      assertOwn(caller, request);
      const { values: all, added } = await values.add(caller, request.values);
      return { ok: true, values: all.map(valueFrom), added };
    },

    async listPersonalValues(request, { caller }) {
      assertOwn(caller, request);
      const ofKind = request.kind === "" ? undefined : request.kind;
      const page = namePageFrom(request, "personal values", ofKind);
      const { items, next } = await values.list(caller, ofKind, page);
      return { ok: true, values: items.map(valueFrom), nextPageToken: page.tokenAfter(next) };
    },

    async deletePersonalValue(request, { caller }) {
      assertOwn(caller, request);
      return { ok: true, value: valueFrom(await values.delete(caller, request.valueId)) };
    },
  } satisfies Partial<Functions>;
}

function settingsFunctions(redaction: Redaction) {
  return {
    async getRedactionSettings(request, { caller }) {
      assertOwn(caller, request);
      return { ok: true, settings: settingsFrom(await redaction.settings(caller), caller) };
    },

    async putRedactionSettings(request, { caller }) {
      assertOwn(caller, request);
      const { llmUrl, llmKey } = request;
      const { settings, hasDroppedKey } = await redaction.putSettings(caller, { ...request, llmUrl, llmKey });
      return { ok: true, settings: settingsFrom(settings, caller), llmKeyDropped: hasDroppedKey };
    },

    async scrub(request, { caller }) {
      assertOwn(caller, request);
      const { text, findings } = await redaction.scrub(caller, request.text);
      return { ok: true, text, findings: findings.map((each) => ({ ...each })) };
    },
  } satisfies Partial<Functions>;
}
