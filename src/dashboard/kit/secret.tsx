import type { ReactNode } from "react";
import { Button } from "./button.tsx";
import { CopyButton } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";

/** Properties of a secret. */
export interface SecretProps {
  readonly title: string;
  /** Name of the secret, as in "Copied the key". */
  readonly what: string;
  readonly secret: string;
  readonly onClose: () => void;
  readonly children?: ReactNode;
}

/** Shows a secret once, in a dialog that only its buttons close. */
export function Secret({ title, what, secret, onClose, children }: SecretProps) {
  return (
    <Dialog title={title} isOpen onClose={onClose} closesBy="button">
      {children}
      <p>Store {what} now. It is shown only here, and nobody can show it again.</p>
      <div className="secret">
        <code data-secret>{secret}</code>
        <CopyButton text={secret} what={what} />
      </div>
      <div className="dialog-actions">
        <Button action="stored" tone="primary" onClick={onClose}>
          I have stored it
        </Button>
      </div>
    </Dialog>
  );
}
