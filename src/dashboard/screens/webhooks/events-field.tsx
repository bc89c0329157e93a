import { NamedField } from "../../kit/form.tsx";

/** Events of the control plane, each with its description. */
const EVENTS = [
  ["agent.revoked", "an agent was revoked"],
  ["escalation.created", "an action waits for a person"],
  ["escalation.resolved", "it was approved or rejected, or its time was up"],
  ["escalation.reminder", "an action still waits, and the deputies may answer"],
  ["decision.blocked", "an action was blocked"],
  ["tool.changed", "a tool has a new version"],
  ["definition.changed", "an MCP server has a new version of a prompt, a resource or its instructions"],
  ["outcome.unknown", "nobody reported in time how an allowed action ended"],
  ["budget.overdrawn", "more was paid than an action reserved, or an approval exceeded a budget"],
] as const;

/** Chooses events. */
export function EventsField({ chosen }: { readonly chosen: readonly string[] }) {
  return (
    <NamedField name="events" label="Events">
      {(control) => (
        <fieldset {...control} className="events">
          <legend className="visually-hidden">Events</legend>
          {EVENTS.map(([event, text]) => (
            <label key={event} className="event">
              <input type="checkbox" name="events" value={event} defaultChecked={chosen.includes(event)} />
              <span>
                <code>{event}</code> <span className="hint">{text}</span>
              </span>
            </label>
          ))}
        </fieldset>
      )}
    </NamedField>
  );
}
