import { useState } from "react";
import { AdminsOnly } from "../../kit/admins-only.tsx";
import { Button } from "../../kit/button.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { useSession } from "../../session.ts";
import "../../styles/keys.css";
import { CreateKey } from "./create-key.tsx";
import { KeyList } from "./key-list.tsx";
import { SigningKeys } from "./signing-keys.tsx";

/** The keys that open the workspace, and those that the service signs with. */
export function Keys() {
  return (
    <ScreenFrame name="keys" title="Keys" actions={<Actions />}>
      <AdminsOnly>
        <KeyList />
        <SigningKeys />
      </AdminsOnly>
    </ScreenFrame>
  );
}

function Actions() {
  const [isOpen, setIsOpen] = useState(false);
  if (useSession().session.role !== "admin") return null;
  return (
    <>
      <Button action="create-key" tone="primary" onClick={() => setIsOpen(true)}>
        Create a key
      </Button>
      {isOpen ? <CreateKey onClose={() => setIsOpen(false)} /> : null}
    </>
  );
}
