import type { McpServer } from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { AreaField, NumberField, TextField } from "../../kit/form.tsx";

const KINDS =
  "email, phone, payment_card, iban, us_ssn, national_id, ip_address, date_of_birth, person_name, account_number, other";

type Limits = Pick<McpServer, "passMethods" | "passMeta" | "drift" | "idleSeconds" | "scrub" | "command">;

/** Fields for what passes to and from a server, and for its times. Without a server they are empty. */
export function LimitFields({ server }: { readonly server?: Limits }) {
  return (
    <>
      <TextField
        name="drift"
        label="Listings may be as old as"
        hint="each_call, or seconds up to 86400. Empty: each_call in quarantine, 5 when open."
        defaultValue={server?.drift}
      />
      <AreaField
        name="scrub"
        label="Replace personal values of the kinds"
        hint={`In everything that the server sends, one kind a line: ${KINDS}.`}
        defaultValue={server?.scrub.join("\n")}
      />
      <AreaField
        name="pass_methods"
        label="Methods that pass undecided"
        hint="Besides those of the gateway's table, one a line, such as acme/status."
        defaultValue={server?.passMethods.join("\n")}
      />
      <AreaField
        name="pass_meta"
        label="Keys of _meta that are passed on"
        hint="Besides those of the specification, one a line, such as acme.com/tenant. No rule reads them."
        defaultValue={server?.passMeta.join("\n")}
      />
      {server?.command === undefined ? null : (
        <NumberField
          name="idle_seconds"
          label="Seconds until the idle command is ended"
          hint="1 to 86,400. A later call starts it again."
          defaultValue={server.idleSeconds}
        />
      )}
    </>
  );
}
