import { isJsonRecord, listAt, textAt, valueAt } from "../verify/json.ts";
import { type Command, CommandError } from "./command.ts";
import { type CallService, serviceFrom } from "./service.ts";

const PATH = "/v1/admin/workspaces";
/** The workspace whose admins see all others. */
const DEFAULT_WORKSPACE = "default";

/** `agentctl halt` blocks every action of a workspace at once, and ends that. */
export const halt: Command = {
  name: "halt",
  arguments: "",
  summary: "block every action of the workspace at once; `--off` ends that",
  details: [
    "",
    "From the next decision on every action is blocked with the reason WORKSPACE_HALTED: in every process, on open streams, through",
    "the gateway and in hooks. Approvals that people give meanwhile run nothing. Neither trust nor limits change. It halts the",
    "workspace of the key, which has the role admin or operator; the log names the key. Halting again changes nothing.",
  ],
  options: ["off", "url", "key-file"],
  exit: "failure",
  async run(input) {
    const halted = !input.has("off");
    const call = serviceFrom(input);
    const workspaceId = await ownWorkspace(call);
    const { workspace } = await call(`${PATH}/${workspaceId}`, { method: "PATCH", body: { halted } });
    // A service that does not know the setting would ignore it.
    if (valueAt(workspace, "halted") !== halted)
      throw new CommandError("the service did not say that it took the setting");
    const line = halted
      ? `halted workspace ${workspaceId}: every action is blocked until \`agentctl halt --off\``
      : `workspace ${workspaceId} is no longer halted`;
    return { lines: [line], json: { workspace_id: workspaceId, halted } };
  },
};

/** Returns the workspace of the key. An admin of the default workspace sees all of them. */
async function ownWorkspace(call: CallService): Promise<string> {
  const page = await call(PATH, { query: { page_size: 2 } });
  const [first, ...others] = listAt(page, "workspaces").filter(isJsonRecord);
  return others.length > 0 || first === undefined ? DEFAULT_WORKSPACE : textAt(first, "workspace_id");
}
