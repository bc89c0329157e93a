/** Decrypts the keys of sessions, under which the digests of their values are made. */
export interface SessionKeys {
  /** Returns the key of a session as its row holds it. Throws ENCRYPTION_KEY_DIFFERS. */
  readonly decrypt: (workspaceId: string, sessionId: string, sealedKey: Uint8Array) => Buffer;
}
