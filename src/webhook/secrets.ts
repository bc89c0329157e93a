import { randomBytes } from "node:crypto";
import type { Encryptor } from "../store/encryptor.ts";
import type { StoredWebhook } from "../store/sql/change-webhook.ts";

/** Columns of a webhook's secrets. A ciphertext of one column cannot be decrypted in the other. */
export type SecretColumn = "sealed_secret" | "sealed_old_secret";

type WebhookId = Pick<StoredWebhook, "workspaceId" | "webhookId">;

const SECRET_BYTES = 32;

/** Creates a secret, `whsec_…`. */
export const newSecret = (): string => `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;

const placeOf = ({ webhookId }: WebhookId, column: SecretColumn): string => `webhook.${column} ${webhookId}`;

/** Encrypts a secret for a column of a webhook. */
export function sealedFrom(encryptor: Encryptor, webhook: WebhookId, column: SecretColumn, secret: string): Buffer {
  return encryptor.encrypt(webhook.workspaceId, placeOf(webhook, column), secret);
}

/** Decrypts a column of a webhook. Throws ENCRYPTION_KEY_DIFFERS. */
export function secretFrom(encryptor: Encryptor, webhook: StoredWebhook, column: SecretColumn): string {
  const sealed = column === "sealed_secret" ? webhook.sealedSecret : webhook.sealedOldSecret;
  return encryptor.decrypt(webhook.workspaceId, placeOf(webhook, column), sealed ?? Buffer.of());
}

/**
 * Returns the signing secrets at a time, newest first: a rotated secret also signs until it expires. Throws
 * ENCRYPTION_KEY_DIFFERS.
 */
export function secretsAt(
  encryptor: Encryptor,
  webhook: StoredWebhook,
  nowMs: number,
): readonly [newest: string, ...older: string[]] {
  const { sealedOldSecret, oldSecretUntilMs } = webhook;
  const newest = secretFrom(encryptor, webhook, "sealed_secret");
  const isOldGood = sealedOldSecret !== null && oldSecretUntilMs !== null && nowMs < oldSecretUntilMs;
  return isOldGood ? [newest, secretFrom(encryptor, webhook, "sealed_old_secret")] : [newest];
}
