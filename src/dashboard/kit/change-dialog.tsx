import { type ReactNode, useState } from "react";
import { Dialog, type DialogProps } from "./dialog.tsx";
import { Field } from "./field.tsx";
import { Form, type FormProps } from "./form.tsx";
import type { FormValues } from "./form-values.ts";
import { Shown } from "./shown.tsx";
import { type Call, type ChangeOptions, useChange } from "./use-change.ts";

/** Properties of a dialog that makes a change. */
export interface ChangeDialogProps<R>
  extends Omit<ChangeOptions<R>, "announcesFault">,
    Pick<FormProps, "submit" | "tone" | "isDisabled" | "onBack">,
    Pick<DialogProps, "title" | "isWide" | "closesBy" | "onClose"> {
  /** `data-action` of the button that submits. Default: `confirm`. */
  readonly action?: string;
  /** Makes the change from the form's values. An error is shown above the buttons, or at the fields that it names. */
  readonly change: (call: Call, values: FormValues) => Promise<R>;
  /** Text to type before the button can be pressed. */
  readonly word?: string | undefined;
  /** Returns the view of the result, such as a secret, that takes the place of the dialog. */
  readonly after?: (result: R) => ReactNode | undefined;
  /** Sentences and controls; the controls are named after the fields of the request. */
  readonly children: ReactNode;
}

/** A dialog that makes a change. It shows a fault in place and stays open until it succeeds or is cancelled. */
export function ChangeDialog<R>(props: ChangeDialogProps<R>) {
  const { title, isWide, closesBy = "escape", onClose, onBack, action = "confirm", word, after, children } = props;
  const { change, refreshes, done, onDone, onFault } = props;
  const [typed, setTyped] = useState("");
  const { mutate, isPending, error, data } = useChange<R, FormValues>(change, {
    refreshes,
    done,
    onFault,
    onDone(result) {
      onDone?.(result);
      if (after?.(result) === undefined) onClose();
    },
  });
  const result = data === undefined ? undefined : after?.(data);
  if (result !== undefined) return result;
  return (
    <Dialog title={title} isOpen isWide={isWide} closesBy={closesBy} onClose={onClose}>
      <Form
        action={action}
        submit={props.submit}
        tone={props.tone}
        isBusy={isPending}
        isDisabled={props.isDisabled === true || (word !== undefined && typed.trim() !== word.trim())}
        error={error}
        onSubmit={mutate}
        onBack={onBack}
        onCancel={onBack === undefined ? onClose : undefined}
      >
        {children}
        {word === undefined ? null : <TypedWord word={word} typed={typed} onType={setTyped} />}
      </Form>
    </Dialog>
  );
}

/** Asks for confirmation before a change that cannot be undone. */
export function Confirm<R>(props: ChangeDialogProps<R>) {
  return <ChangeDialog tone="danger" closesBy="click" {...props} />;
}

interface TypedWordProps {
  readonly word: string;
  readonly typed: string;
  readonly onType: (typed: string) => void;
}

/** Asks for confirmation by typing a word, before a change with large consequences. */
function TypedWord({ word, typed, onType }: TypedWordProps) {
  const hint = (
    <>
      Type{" "}
      <strong>
        <Shown text={word} />
      </strong>
    </>
  );
  return (
    <Field label="Type to confirm" hint={hint}>
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
