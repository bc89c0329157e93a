import { useCallback, useEffect, useState } from "react";
import { useSearchParams } from "wouter";
import { Field } from "./field.tsx";

const TYPING_MS = 200;
const MAX_TEXT = 200;

/** Returns the function that changes one filter in the address. A step can be taken back by the browser's Back. */
export function useAddressFilter(): (name: string, value: string, isStep?: boolean) => void {
  const [, setParameters] = useSearchParams();
  return useCallback(
    (name, value, isStep = false) =>
      setParameters(
        (before) => {
          const after = new URLSearchParams(before);
          if (value === "") after.delete(name);
          else after.set(name, value);
          return after;
        },
        { replace: !isStep },
      ),
    [setParameters],
  );
}

/** Properties of a filter whose value is kept in the address under its name. */
export interface AddressFilterProps {
  readonly name: string;
  readonly label: string;
  /** `data-action` of the control. */
  readonly action?: string;
}

/** A value that can be chosen, with its title. */
export interface FilterOption {
  /** Empty for the choice that the address leaves out. */
  readonly word: string;
  readonly title: string;
}

/** A filter with a few choices. */
export function AddressChoice({
  name,
  label,
  action,
  options,
  isStep,
}: AddressFilterProps & { readonly options: readonly FilterOption[]; readonly isStep?: boolean }) {
  const [parameters] = useSearchParams();
  const setFilter = useAddressFilter();
  return (
    <Field label={label}>
      {(control) => (
        <select
          {...control}
          name={name}
          data-action={action}
          value={parameters.get(name) ?? ""}
          onChange={({ target }) => setFilter(name, target.value, isStep)}
        >
          {options.map(({ word, title }) => (
            <option key={word} value={word}>
              {title}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A filter by text. It enters the address when the typing pauses. */
export function AddressSearch({
  name,
  label,
  action,
  placeholder,
}: AddressFilterProps & { readonly placeholder?: string }) {
  const [parameters] = useSearchParams();
  const inAddress = parameters.get(name) ?? "";
  const [typed, setTyped] = useState(inAddress);
  const setFilter = useAddressFilter();
  useEffect(() => setTyped(inAddress), [inAddress]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: waits for the typing alone
  useEffect(() => {
    if (typed === inAddress) return undefined;
    const timer = setTimeout(() => setFilter(name, typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <Field label={label}>
      {(control) => (
        <input
          {...control}
          type="search"
          name={name}
          data-action={action}
          placeholder={placeholder}
          value={typed}
          maxLength={MAX_TEXT}
          onChange={({ target }) => setTyped(target.value)}
          autoComplete="off"
        />
      )}
    </Field>
  );
}
