/* The service behind TLS, with certificates made for one test. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAuthority, type TestAuthority } from "./certificates.ts";
import { createTestDatabase } from "./database.ts";
import { type ServedHere, serveHere } from "./served-here.ts";

/** A service behind TLS. */
export interface TlsService extends ServedHere {
  readonly authority: TestAuthority;
  /** Writes a file beside the certificates; gives its path. */
  file(name: string, text: string): Promise<string>;
  stop(): Promise<void>;
}

/** Starts the service. With `asksClients` every connection needs a certificate of the authority. */
export async function serveWithTls({ asksClients = false } = {}): Promise<TlsService> {
  await using started = new AsyncDisposableStack();
  const database = await createTestDatabase();
  started.defer(() => database.drop());
  const folder = await mkdtemp(join(tmpdir(), "acp-tls-"));
  started.defer(() => rm(folder, { recursive: true }));
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  const authority = createAuthority();
  const { cert, key } = authority.issue();
  const env = {
    ACP_TLS_CERT: await file("service.crt", cert),
    ACP_TLS_KEY: await file("service.key", key),
    ...(asksClients ? { ACP_TLS_CLIENT_CA: await file("authority.crt", authority.cert) } : {}),
  };
  const service = await serveHere({ databaseUrl: database.url, env });
  started.defer(async () => void (await service.stop()));
  const running = started.move();
  return { ...service, authority, file, stop: () => running.disposeAsync() };
}
