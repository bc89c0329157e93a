import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { DropdownMenu } from "radix-ui";
import { type ReactNode, useState } from "react";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityService } from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { AgentPicker } from "../../kit/agent-picker.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { AreaField, DurationField, NamedField, NumberField, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { Secret } from "../../kit/secret.tsx";
import { shownText } from "../../kit/shown.tsx";
import type { Call } from "../../kit/use-change.ts";
import { inputTime, zoneNow } from "../../kit/zone.ts";
import { KIND_NAMES, KINDS, type KindName, LISTS } from "./authority-kinds.ts";
import { isHeld } from "./authority-rows.ts";

const { method } = AuthorityService;

/** Form and call that create authority of a kind. */
interface Recipe {
  readonly fields: (agentId: string) => ReactNode;
  /** Creates it. Returns its secret, if the kind has one. */
  readonly create: (call: Call, agentId: string, values: FormValues) => Promise<string | undefined>;
}

const whole = (count: number | undefined): bigint | undefined => (count === undefined ? undefined : BigInt(count));
const nothing = (): undefined => undefined;

const NEVER = "Empty: never.";
const ANY_NUMBER = "Empty: any number.";
const PATTERNS = "One a line, exact or with * at the end: payment.*";

const RECIPES: Readonly<Record<KindName, Recipe>> = {
  sessions: {
    fields: () => (
      <>
        <TextField name="purpose" label="Purpose" />
        <DurationField name="ttl_seconds" label="Expires after" hint="Empty: a day." />
      </>
    ),
    create: (call, agentId, values) =>
      call(method.createSession, {
        agentId,
        purpose: values.text("purpose"),
        ttlSeconds: whole(values.seconds("ttl_seconds")),
      }).then(nothing),
  },
  credentials: {
    fields: () => (
      <>
        <TextField name="name" label="Name" />
        <DurationField name="ttl_seconds" label="Expires after" hint={NEVER} />
      </>
    ),
    async create(call, agentId, values) {
      const ttlSeconds = whole(values.seconds("ttl_seconds"));
      return (await call(method.createCredential, { agentId, name: values.text("name"), ttlSeconds })).secret;
    },
  },
  grants: {
    fields: (agentId) => <GrantFields agentId={agentId} />,
    create: (call, agentId, values) =>
      call(method.createGrant, {
        grantorAgentId: agentId,
        granteeAgentId: values.text("grantee_agent_id"),
        actionTypes: values.lines("action_types"),
        parentGrantId: values.optional("parent_grant_id"),
        ttlSeconds: whole(values.seconds("ttl_seconds")),
        maxUses: whole(values.integer("max_uses")),
      }).then(nothing),
  },
  temporal_windows: {
    fields: () => (
      <>
        <AreaField name="action_types" label="Action types that it admits" hint={PATTERNS} />
        <NamedField name="starts_at" label="Opens" hint="In this browser's time. Empty: at once.">
          {(control) => <input {...control} name="starts_at" type="datetime-local" />}
        </NamedField>
        <DurationField name="duration_seconds" label="Stays open for" defaultSeconds={3_600} />
        <NumberField name="max_uses" label="Uses" hint={ANY_NUMBER} />
        <TextField name="reason" label="Reason" />
      </>
    ),
    create: (call, agentId, values) =>
      call(method.createTemporalWindow, {
        agentId,
        actionTypes: values.lines("action_types"),
        startsAt: startOf(values),
        durationSeconds: whole(values.seconds("duration_seconds")) ?? 0n,
        maxUses: whole(values.integer("max_uses")),
        reason: values.text("reason"),
      }).then(nothing),
  },
  intent_contracts: {
    fields: () => (
      <>
        <AreaField name="goal" label="Goal" hint="What is to be achieved." />
        <AreaField name="allowed_action_types" label="Action types inside the contract" hint={PATTERNS} />
        <AreaField name="allowed_tools" label="Tools inside the contract" hint="One a line. Empty: any." />
        <NumberField name="max_actions" label="Actions" hint={ANY_NUMBER} />
        <DurationField name="duration_seconds" label="Expires after" hint={NEVER} />
      </>
    ),
    create: (call, agentId, values) =>
      call(method.createIntentContract, {
        agentId,
        goal: values.text("goal"),
        allowedActionTypes: values.lines("allowed_action_types"),
        allowedTools: values.lines("allowed_tools"),
        maxActions: whole(values.integer("max_actions")),
        durationSeconds: whole(values.seconds("duration_seconds")),
      }).then(nothing),
  },
  federation_tokens: {
    fields: () => (
      <>
        <TextField name="audience" label="Audience" hint="Who is to accept it." />
        <AreaField name="allowed_action_types" label="Action types that it is good for" hint={PATTERNS} />
        <NumberField name="max_trust_level" label="Trust counts as at most" hint="0 to 100. Empty: no cap." />
        <DurationField name="ttl_seconds" label="Expires after" defaultSeconds={3_600} />
        <NumberField name="max_uses" label="Uses" hint={ANY_NUMBER} />
      </>
    ),
    async create(call, agentId, values) {
      const { token } = await call(method.createFederationToken, {
        agentId,
        audience: values.text("audience"),
        allowedActionTypes: values.lines("allowed_action_types"),
        maxTrustLevel: values.number("max_trust_level"),
        ttlSeconds: whole(values.seconds("ttl_seconds")) ?? 0n,
        maxUses: whole(values.integer("max_uses")),
      });
      return token;
    },
  },
  mcp_tool_policies: {
    fields: () => (
      <>
        <TextField name="server" label="MCP server" hint="Its name, or * for any." />
        <TextField name="tool" label="Tool" hint="Exact, or with * at the end." />
        <SelectField
          name="decision"
          label="Decision"
          options={[
            { value: Decision.BLOCK, title: "Block" },
            { value: Decision.ESCALATE, title: "Escalate" },
            { value: Decision.ALLOW, title: "Allow, and go on to the mandates" },
          ]}
        />
      </>
    ),
    create: (call, agentId, values) =>
      call(method.createMcpToolPolicy, {
        agentId,
        server: values.text("server"),
        tool: values.text("tool"),
        decision: values.number("decision") as Decision,
      }).then(nothing),
  },
};

function startOf(values: FormValues) {
  const text = values.text("starts_at");
  return text === "" ? undefined : timestampFromMs(inputTime(text, zoneNow()));
}

function GrantFields({ agentId }: { readonly agentId: string }) {
  const { data } = useQuery(method.listGrants, { agentId, pageSize: 500 });
  const received = (data?.grants ?? []).filter((grant) => grant.granteeAgentId === agentId && isHeld(grant));
  const parents = received.map(({ grantId, actionTypes }) => ({
    value: grantId,
    title: `passes on ${shownText(actionTypes.join(", "), 60)} (${grantId.slice(-6)})`,
  }));
  return (
    <>
      <AgentPicker name="grantee_agent_id" label="Lend to" without={agentId} />
      <AreaField name="action_types" label="Action types that are lent" hint={PATTERNS} />
      <SelectField
        name="parent_grant_id"
        label="Authority"
        options={[{ value: "", title: "lends its own" }, ...parents]}
      />
      <DurationField
        name="ttl_seconds"
        label="Expires after"
        hint="Empty: never, or with the grant that is passed on."
      />
      <NumberField name="max_uses" label="Uses" hint={ANY_NUMBER} />
    </>
  );
}

/** Creates authority of any kind for an agent. A secret is shown once. */
export function NewAuthority({ agentId }: { readonly agentId: string }) {
  const [kind, setKind] = useState<KindName>();
  return (
    <>
      <DropdownMenu.Root>
        <DropdownMenu.Trigger className="button is-plain" data-action="new-authority">
          Add authority <span aria-hidden>▾</span>
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal>
          <DropdownMenu.Content className="menu" align="start" sideOffset={6}>
            {KIND_NAMES.map((name) => (
              <DropdownMenu.Item
                key={name}
                className="menu-item"
                data-action={`new-${name}`}
                onSelect={() => setKind(name)}
              >
                {sentence(KINDS[name].one)}
              </DropdownMenu.Item>
            ))}
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      {kind === undefined ? null : <AuthorityForm kind={kind} agentId={agentId} onClose={() => setKind(undefined)} />}
    </>
  );
}

const sentence = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

interface AuthorityFormProps {
  readonly kind: KindName;
  readonly agentId: string;
  readonly onClose: () => void;
}

function AuthorityForm({ kind, agentId, onClose }: AuthorityFormProps) {
  const { fields, create } = RECIPES[kind];
  const { one } = KINDS[kind];
  return (
    <ChangeDialog
      title={`Create ${one}`}
      action="submit-authority"
      submit="Create"
      change={(call, values) => create(call, agentId, values)}
      refreshes={[...LISTS, AgentService.method.getAgent]}
      done={`Created ${one}.`}
      after={(secret) =>
        secret === undefined ? undefined : (
          <Secret title="The secret" what="the secret" secret={secret} onClose={onClose} />
        )
      }
      onClose={onClose}
    >
      {fields(agentId)}
    </ChangeDialog>
  );
}
