import { type FormEvent, useEffect, useState } from "react";
import { Button } from "../kit/button.tsx";
import { CopyButton } from "../kit/copy.tsx";
import { Shown } from "../kit/shown.tsx";
import { Announcements } from "../kit/toast.tsx";
import { type InvitedKey, openInvite } from "../session.ts";
import "../theme.ts";

/** Address of the page. */
export const INVITE_PATH = "/invite";

/** Shows a person the key of their invite, without a sign-in. The link is used up by the button, not by its opening. */
export function Invite() {
  const [secret] = useState(() => window.location.hash.slice(1));
  const [key, setKey] = useState<InvitedKey>();
  const [fault, setFault] = useState(secret === "" ? "The link is not whole: open it as it was sent to you." : "");
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => {
    document.title = "Your invite · Agent Control Plane";
  }, []);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setIsBusy(true);
    setFault("");
    openInvite(secret)
      .then(
        (opened) => {
          setKey(opened);
          // The used secret is left in no history.
          window.history.replaceState(null, "", INVITE_PATH);
        },
        (error: Error) => setFault(error.message),
      )
      .finally(() => setIsBusy(false));
  };
  return (
    <Announcements>
      <main className="sign-in" data-screen="invite">
        <form onSubmit={submit} className="card">
          <h1>Agent Control Plane</h1>
          {key === undefined ? (
            <>
              <p>You are invited. The button shows a key of yours, once: have a place ready where you keep it.</p>
              <p role="alert" className="fault-text">
                {fault}
              </p>
              <Button type="submit" tone="primary" action="open-invite" isBusy={isBusy} disabled={secret === ""}>
                Show my key
              </Button>
            </>
          ) : (
            <OpenedKey invited={key} />
          )}
        </form>
      </main>
    </Announcements>
  );
}

function OpenedKey({ invited: { name, role, workspaceId, secret } }: { readonly invited: InvitedKey }) {
  return (
    <>
      <p>
        {name === undefined ? "Your key" : <Shown text={`Key of ${name}`} />}, role {role}, in the workspace{" "}
        <strong>{workspaceId}</strong>. Store it now: nobody can show it again.
      </p>
      <div className="secret">
        <code data-secret>{secret}</code>
        <CopyButton text={secret} what="the key" />
      </div>
      <p className="hint">With this key you sign in to the dashboard, and commands and programs call as you.</p>
      <a className="button is-primary" href="/overview" data-action="to-sign-in">
        I have stored it, sign in
      </a>
    </>
  );
}
