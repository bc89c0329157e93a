/** The settings of a workspace as `readRedactionSettings` gives them. */
export interface StoredRedactionSettings {
  readonly restoreValues: boolean;
  readonly allowMedia: boolean;
  readonly disabledKinds: readonly string[];
  readonly sealedAllow: Uint8Array;
  readonly revision: number;
}

/** Reads a workspace's settings; every request of the proxy asks. Parameter: workspace. No row: nothing was ever set. */
export const readRedactionSettings = {
  name: "read-redaction-settings",
  text: `select restore_values as "restoreValues", allow_media as "allowMedia", disabled_kinds as "disabledKinds",
      sealed_allow as "sealedAllow", revision::float8 as revision
    from redaction_settings where workspace_id = $1`,
};

/** A registered value as `readPersonalValues` gives it. */
export interface StoredPersonalValue {
  readonly valueId: string;
  readonly kind: string;
  readonly sealedValue: Buffer;
}

/** Reads registered values in the order of their ids. Parameters: workspace, the id to go on after (empty: from the first), how many at most. */
export const readPersonalValues = {
  name: "read-personal-values",
  text: `select value_id as "valueId", kind, sealed_value as "sealedValue" from personal_value
    where workspace_id = $1 and value_id > $2 order by value_id limit $3`,
};

/** Where a leak is told: the webhooks that are active. Parameter: workspace. */
export const readActiveRedactionWebhooks = {
  name: "read-active-redaction-webhooks",
  text: `select webhook_id as "webhookId", url, sealed_secret as "sealedSecret" from redaction_webhook
    where workspace_id = $1 and is_active order by webhook_id`,
};

/** A webhook as `readActiveRedactionWebhooks` gives it. */
export interface ActiveRedactionWebhook {
  readonly webhookId: string;
  readonly url: string;
  readonly sealedSecret: Buffer | null;
}
