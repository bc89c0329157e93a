import { type FormEvent, type ReactNode, useState } from "react";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Field } from "./field.tsx";
import { Shown } from "./shown.tsx";
import { Fault } from "./states.tsx";

/** Properties of a confirmation. */
export interface ConfirmProps {
  readonly title: string;
  /** Name of the button that does it. */
  readonly action: string;
  readonly submit: string;
  /** What has to be typed before the button can be pressed; undefined for nothing. */
  readonly word?: string | undefined;
  readonly isBusy: boolean;
  readonly error: unknown;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** Asks before something that cannot be taken back. The service's refusal is shown where the button is. */
export function Confirm({ title, action, submit, word, isBusy, error, onConfirm, onClose, children }: ConfirmProps) {
  const [typed, setTyped] = useState("");
  const send = (event: FormEvent): void => {
    event.preventDefault();
    onConfirm();
  };
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <form className="stack" onSubmit={send}>
        {children}
        {word === undefined ? null : <TypedWord word={word} typed={typed} onType={setTyped} />}
        {error === null || error === undefined ? null : <Fault error={error} />}
        <div className="dialog-actions">
          <Button action="cancel" onClick={onClose}>
            Cancel
          </Button>
          <Button
            type="submit"
            action={action}
            tone="danger"
            isBusy={isBusy}
            disabled={word !== undefined && !isTyped(typed, word)}
          >
            {submit}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Compares what was typed with a word, blanks around them aside. */
export const isTyped = (typed: string, word: string): boolean => typed.trim() === word.trim();

/** Asks to type a word that shows that its reader knows what will happen. */
export function TypedWord({
  word,
  typed,
  onType,
}: {
  readonly word: string;
  readonly typed: string;
  readonly onType: (typed: string) => void;
}) {
  return (
    <Field
      label="Type to confirm"
      hint={
        <>
          Type{" "}
          <strong>
            <Shown text={word} />
          </strong>
        </>
      }
    >
      {(control) => (
        <input
          {...control}
          name="confirm"
          value={typed}
          onChange={({ target }) => onType(target.value)}
          autoComplete="off"
          spellCheck={false}
        />
      )}
    </Field>
  );
}
