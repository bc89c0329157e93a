import { defineEntity, type InferEntity, p } from "@mikro-orm/postgresql";

/**
 * What a workspace wants of its redaction. `sealedAllow` is the encrypted allow-list; it tells too whether a process has the
 * right key. `revision` grows with every change of the settings and of the registered values.
 */
export const RedactionSettingsEntity = defineEntity({
  name: "RedactionSettings",
  tableName: "redaction_settings",
  properties: {
    workspaceId: p.text().primary(),
    restoreValues: p.boolean(),
    allowMedia: p.boolean(),
    disabledKinds: p.array<string>(),
    sealedAllow: p.blob(),
    revision: p.bigint("number"),
  },
});

/** A registered personal value, encrypted. `mark` is a keyed digest of it, by which a repetition is known. */
export const PersonalValueEntity = defineEntity({
  name: "PersonalValue",
  tableName: "personal_value",
  properties: {
    workspaceId: p.text().primary(),
    valueId: p.text().primary(),
    kind: p.text(),
    sealedValue: p.blob(),
    mark: p.blob(),
    createdAtMs: p.bigint("number"),
  },
});

/** A webhook that hears of leakage. `sealedSecret` is its encrypted secret, null for none. */
export const RedactionWebhookEntity = defineEntity({
  name: "RedactionWebhook",
  tableName: "redaction_webhook",
  properties: {
    workspaceId: p.text().primary(),
    webhookId: p.text().primary(),
    url: p.text(),
    isActive: p.boolean(),
    createdAtMs: p.bigint("number"),
    sealedSecret: p.blob().nullable(),
  },
});

/** One row of each table. */
export type RedactionSettingsRow = InferEntity<typeof RedactionSettingsEntity>;
export type PersonalValueRow = InferEntity<typeof PersonalValueEntity>;
export type RedactionWebhookRow = InferEntity<typeof RedactionWebhookEntity>;
