import { useQuery } from "@connectrpc/connect-query";
import { AdminService, PromptSource, type Workspace } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { WordList } from "../../kit/lists/word-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { durationText, Time } from "../../kit/time.tsx";
import { useSession } from "../../session.ts";
import { OUTCOMES, SettingsForm } from "./settings-form.tsx";

/** One workspace. Its settings can be changed in the reader's own workspace, else only read. */
export function WorkspaceCard({ workspaceId }: { readonly workspaceId: string }) {
  const query = useQuery(AdminService.method.getWorkspace, { workspaceId });
  const own = useSession().session.workspaceId;
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  const workspace = query.data?.workspace;
  if (workspace === undefined) return <Loading what="the workspace" />;
  return (
    <section className="card stack" data-workspace={workspaceId} aria-labelledby="workspace-title">
      <h2 id="workspace-title">
        <Shown text={workspace.name} />
      </h2>
      <p className="hint">
        <code>{workspaceId}</code>, created <Time at={workspace.createdAt} />
      </p>
      {workspaceId === own ? <SettingsForm workspace={workspace} /> : <Settings workspace={workspace} />}
    </section>
  );
}

const decisionText = (decision: Decision): string => (Decision[decision] ?? "unknown").toLowerCase();

function Settings({ workspace }: { readonly workspace: Workspace }) {
  return (
    <>
      <dl className="facts">
        <dt>When no mandate matches</dt>
        <dd>{decisionText(workspace.defaultDecision)}</dd>
        <dt>Unknown tools</dt>
        <dd>{decisionText(workspace.unknownTools)}</dd>
        <dt>Trust of a new agent</dt>
        <dd>{workspace.initialTrust}</dd>
        <dt>Escalations expire after</dt>
        <dd>{durationText(workspace.escalationTtlSeconds * 1_000)}</dd>
        <dt>Approvals are usable for</dt>
        <dd>{durationText(workspace.approvalTtlSeconds * 1_000)}</dd>
        <dt>Pending escalations of one agent</dt>
        <dd>{workspace.maxPendingEscalationsPerAgent}</dd>
        <dt>New keys expire after</dt>
        <dd>
          {workspace.keyTtlDays === 0 ? "never, unless asked for" : durationText(workspace.keyTtlDays * 86_400_000)}
        </dd>
        <dt>Calls per second of one key</dt>
        <dd>{workspace.rateLimitKey || "no limit"}</dd>
        <dt>Calls per second of all keys together</dt>
        <dd>{workspace.rateLimitWorkspace || "no limit"}</dd>
        <dt>Outcomes are tracked of</dt>
        <dd>{OUTCOMES.find(({ value }) => value === workspace.outcomes)?.title.toLowerCase() ?? "claimed actions"}</dd>
        <dt>Outcomes are unknown after</dt>
        <dd>{durationText(workspace.outcomeTimeoutSeconds * 1_000)}</dd>
        <dt>What an agent was asked is said by</dt>
        <dd>{workspace.promptFrom === PromptSource.OPERATOR ? "operators alone" : "the agent's own key as well"}</dd>
        <dt>Four eyes</dt>
        <dd>{workspace.fourEyes ? "yes" : "no"}</dd>
        <dt>Approvals do not cover</dt>
        <dd>
          <WordList words={workspace.approvalIgnores} none="approvals cover everything" />
        </dd>
      </dl>
      <p className="hint">To change them, sign in with an admin key of this workspace.</p>
    </>
  );
}
