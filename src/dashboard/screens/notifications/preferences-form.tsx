import { useState } from "react";
import {
  NotificationFilter,
  type NotificationPreferences,
  NotificationService,
} from "../../../../gen/agentcontrol/v1/notification_service_pb.js";
import { AreaField, Form, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { useChange } from "../../kit/use-change.ts";

const { getNotificationPreferences, updateNotificationPreferences } = NotificationService.method;

const FILTERS = [
  { value: NotificationFilter.ALL, title: "every escalation" },
  { value: NotificationFilter.MINE, title: "those of my groups, and those that anyone may answer" },
];
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

function preferencesFrom(values: FormValues) {
  const [from, to] = [values.text("preferences.quiet_hours.from"), values.text("preferences.quiet_hours.to")];
  const timeZone = values.text("preferences.quiet_hours.time_zone");
  const quiet = from === "" && to === "" ? {} : { quietHours: { from, to, timeZone } };
  const about = Number(values.text("preferences.about")) as NotificationFilter;
  return { preferences: { about, groups: values.lines("preferences.groups"), ...quiet } };
}

/** The signed-in person's choice of messages and quiet hours. */
export function PreferencesForm({ preferences }: { readonly preferences: NotificationPreferences | undefined }) {
  const { about = NotificationFilter.ALL, groups = [], quietHours } = preferences ?? {};
  const [filter, setFilter] = useState<number>(about);
  const save = useChange((call, values: FormValues) => call(updateNotificationPreferences, preferencesFrom(values)), {
    refreshes: [getNotificationPreferences],
    done: "Saved",
  });
  return (
    <Form action="save-preferences" submit="Save" isBusy={save.isPending} error={save.error} onSubmit={save.mutate}>
      <SelectField
        name="preferences.about"
        label="Tell me of"
        defaultValue={about}
        options={FILTERS}
        onChange={(value) => setFilter(Number(value))}
      />
      {filter === NotificationFilter.MINE ? (
        <AreaField
          name="preferences.groups"
          label="My approver groups"
          hint="One name a line."
          defaultValue={groups.join("\n")}
        />
      ) : null}
      <div className="quiet-hours">
        <TextField
          name="preferences.quiet_hours.from"
          label="Quiet from"
          hint="Such as 22:00. Empty: never."
          defaultValue={quietHours?.from}
        />
        <TextField
          name="preferences.quiet_hours.to"
          label="Until"
          hint="Such as 06:30."
          defaultValue={quietHours?.to}
        />
        <TextField
          name="preferences.quiet_hours.time_zone"
          label="Time zone"
          hint="What still waits at the end is told then."
          defaultValue={quietHours?.timeZone ?? OWN_ZONE}
        />
      </div>
    </Form>
  );
}
