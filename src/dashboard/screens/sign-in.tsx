import { type FormEvent, useId, useState } from "react";
import { Button } from "../kit/button.tsx";
import { type OidcOffer, oidcStartOf, type Session, signIn } from "../session.ts";
import "../theme.ts";

interface SignInProps {
  /** Single sign-on; null if only keys sign in. */
  readonly oidc: OidcOffer | null;
  readonly onSignedIn: (session: Session) => void;
}

/** Asks for a key, or leads to the identity provider. The service answers with a cookie that scripts cannot read. */
export function SignIn({ oidc, onSignedIn }: SignInProps) {
  const [key, setKey] = useState("");
  const [fault, setFault] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const id = useId();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setIsBusy(true);
    setFault("");
    signIn(key.trim())
      .then(onSignedIn, (error: Error) => setFault(error.message))
      .finally(() => setIsBusy(false));
  };
  return (
    <main className="sign-in" data-screen="sign-in">
      <form onSubmit={submit} className="card">
        <h1>Agent Control Plane</h1>
        {oidc !== null && (
          <>
            <a className="button is-primary" data-action="sign-in-oidc" href={oidcStartOf(oidc, window.location)}>
              Sign in with {oidc.label}
            </a>
            <p className="sign-in-or">or with a key</p>
          </>
        )}
        <label htmlFor={id}>API key</label>
        <input
          id={id}
          name="key"
          type="password"
          autoComplete="current-password"
          spellCheck={false}
          required
          value={key}
          onChange={(event) => setKey(event.target.value)}
          aria-describedby={`${id}-hint`}
          aria-invalid={fault !== ""}
        />
        <p id={`${id}-hint`} className="hint">
          A key of the role admin, operator or auditor. <code>npm start</code> says where the first one is.
        </p>
        <p role="alert" className="fault-text">
          {fault}
        </p>
        <Button type="submit" tone={oidc === null ? "primary" : "plain"} action="sign-in" isBusy={isBusy}>
          Sign in
        </Button>
      </form>
    </main>
  );
}
