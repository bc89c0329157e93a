import type { JsonObject } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { ApproverGroupService } from "../../../../gen/agentcontrol/v1/approver_group_service_pb.js";
import { MandateService, type Rule } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { requestErrorFrom } from "../../../client/request-error.ts";
import { DurationField, FieldError, NamedField, NumberField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { shownText } from "../../kit/shown.tsx";
import { Fault } from "../../kit/states.tsx";
import type { Call } from "../../kit/use-change.ts";
import { readMandateText } from "./mandate-text.ts";

const PAGE_SIZE = 200;
const MAX_PURPOSE = 80;

/** Fields for the people who have to approve what a rule escalates. */
export function ApproverFields() {
  const { data, error, refetch } = useQuery(ApproverGroupService.method.listApproverGroups, { pageSize: PAGE_SIZE });
  const groups = data?.approverGroups ?? [];
  return (
    <fieldset className="stack approver-fields">
      <legend>Who approves</legend>
      {error === null ? null : <Fault error={error} onRetry={() => void refetch()} />}
      <NamedField
        name="approvers.groups"
        label="Members of"
        hint={
          data !== undefined && groups.length === 0 ? (
            <>
              There is no <Link href="/approver-groups">approver group</Link> yet: any operator counts.
            </>
          ) : (
            "A member of any of them counts. None: any operator counts."
          )
        }
      >
        {(control) => (
          <fieldset {...control} aria-label="Members of" className="stack choices">
            {groups.map(({ name, description }) => (
              <label key={name} className="row">
                <input type="checkbox" name="approvers.groups" value={name} />
                {shownText(name, MAX_PURPOSE)}
                {description === "" ? null : <span className="hint">{shownText(description, MAX_PURPOSE)}</span>}
              </label>
            ))}
          </fieldset>
        )}
      </NamedField>
      <NumberField name="approvers.at_least" label="How many of them" hint="1 to 20; empty for one." />
      <DurationField
        name="approvers.remind_after_seconds"
        label="Remind them after"
        hint="Once; deputies of the groups count from then on. Empty: never."
      />
    </fieldset>
  );
}

/** Makes `approvers` of a rule from the form; undefined if any operator is enough. */
export function approversFrom(values: FormValues): JsonObject | undefined {
  const groups = values.all("approvers.groups");
  const atLeast = values.integer("approvers.at_least");
  const remindAfter = values.seconds("approvers.remind_after_seconds");
  if (groups.length === 0 && atLeast === undefined && remindAfter === undefined) return undefined;
  return {
    ...(groups.length > 0 && { groups }),
    ...(atLeast !== undefined && { at_least: atLeast }),
    ...(remindAfter !== undefined && { remind_after_seconds: remindAfter }),
  };
}

/** Beginning of the path of a field of `approvers`, and the rest of it. */
const OF_APPROVERS = /^rules\[(\d+)\]\.(approvers(?:\..+)?)$/;

/**
 * Compiles the text with a new last rule. Throws `FieldError` for what is wrong with its `approvers`; the editor marks all other faults.
 */
export async function assertApproversCompile(text: string, call: Call): Promise<void> {
  const { definition } = readMandateText(text);
  const rules = definition?.rules;
  if (rules === undefined) return;
  for (const { path, message } of await violationsOf(call, rules)) {
    const [, index, field = ""] = OF_APPROVERS.exec(path) ?? [];
    if (Number(index) === rules.length - 1) throw new FieldError(field, message);
  }
}

/** Returns what is wrong with rules: as the compiler says, or as the service refuses their form. */
async function violationsOf(call: Call, rules: readonly Rule[]) {
  try {
    const { violations } = await call(MandateService.method.compileMandate, { rules: [...rules] });
    return violations;
  } catch (error) {
    const violations = error instanceof ConnectError ? requestErrorFrom(error).violations : [];
    if (violations.length === 0) throw error;
    return violations.map(({ field, description }) => ({ path: field, message: description }));
  }
}
