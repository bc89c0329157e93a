import { Shown, shownText } from "./shown.tsx";

/** Properties of an actor. */
export interface ActorProps {
  /** Id of a key or a credential, or name of a person, as the log has it. */
  readonly id: string;
  /** Name that stands beside the id; undefined if there is none. */
  readonly name: string | undefined;
}

/** Shows who did something: by name with the id as its title, or by id. */
export function Actor({ id, name }: ActorProps) {
  if (name === undefined || name === "") {
    return (
      <code>
        <Shown text={id} />
      </code>
    );
  }
  return (
    <span className="actor" title={shownText(id, 600)}>
      <Shown text={name} />
    </span>
  );
}
