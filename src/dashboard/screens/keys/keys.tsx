import { AdminsOnly } from "../../kit/admins-only.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { useSession } from "../../session.ts";
import "../../styles/keys.css";
import { SETTINGS } from "../settings/place.ts";
import { CreateKey } from "./create-key.tsx";
import { KeyList } from "./key-list.tsx";
import { SigningKeys } from "./signing-keys.tsx";

/** API keys of the workspace, and signing keys of the service. */
export function Keys() {
  return (
    <ScreenFrame name="keys" title="Keys" within={SETTINGS} actions={<Actions />}>
      <AdminsOnly>
        <KeyList />
        <SigningKeys />
      </AdminsOnly>
    </ScreenFrame>
  );
}

function Actions() {
  if (useSession().session.role !== "admin") return null;
  return (
    <DialogButton action="create-key" tone="primary" label="Create a key">
      {(close) => <CreateKey onClose={close} />}
    </DialogButton>
  );
}
