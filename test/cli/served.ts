import { startService, type TestService, type TestServiceOptions } from "../support/service.ts";
import { agentctl, createFolder, type Folder, type Run } from "./harness.ts";

/** A service with `agentctl` pointed at it, and a folder for its files. */
export interface Served extends TestService {
  readonly folder: Folder;
  agentctl(...argv: readonly string[]): Promise<Run>;
  /** Has an action of an agent decided. */
  intercept(agentId: string, more?: object): Promise<{ readonly decision_id: string; readonly escalation_id: string }>;
}

/** Starts a service. */
export async function startServed(options: TestServiceOptions = {}): Promise<Served> {
  const service = await startService(options);
  const folder = await createFolder();
  return {
    ...service,
    folder,
    agentctl: (...argv) => agentctl(argv, { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey }),
    intercept: (agentId, more = {}) =>
      service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type: "read", ...more }) as never,
    async stop() {
      await folder.remove();
      return service.stop();
    },
  };
}
