/** Address of one part of a proof. */
export interface ProofAddress {
  readonly title: string;
  /** Path on the service. */
  readonly path: string;
}

const KEYS: ProofAddress = { title: "Keys of the service", path: "/.well-known/jwks.json" };

/** Addresses on paper at which a proof can be checked again: this page, the parts of the proof, the keys. */
export function ProofAddresses({ addresses }: { readonly addresses: readonly ProofAddress[] }) {
  const { origin, pathname } = window.location;
  const all: readonly ProofAddress[] = [{ title: "This page", path: pathname }, ...addresses, KEYS];
  return (
    <dl className="print-only" data-addresses>
      {all.map(({ title, path }) => (
        <div key={path}>
          <dt>{title}</dt>
          <dd>
            <code>{`${origin}${path}`}</code>
          </dd>
        </div>
      ))}
    </dl>
  );
}
