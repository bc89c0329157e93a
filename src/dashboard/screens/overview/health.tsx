import { useQuery } from "@tanstack/react-query";
import { Badge } from "../../kit/badge.tsx";

const REFRESH_MS = 5_000;

async function readHealth(): Promise<string | null> {
  const response = await fetch("/readyz");
  if (response.ok) return null;
  const body = (await response.json().catch(() => ({}))) as { readonly error?: { readonly message?: string } };
  return body.error?.message ?? `the service answered ${response.status}`;
}

/** Readiness of the service and its database. */
export function Health() {
  const { data, isError } = useQuery({
    queryKey: ["readyz"],
    queryFn: readHealth,
    refetchInterval: REFRESH_MS,
    retry: false,
  });
  return (
    <section className="card stack" aria-label="Health">
      <h2>Health</h2>
      <p className="big">
        {isError ? <Badge tone="bad">not reached</Badge> : null}
        {data === undefined && !isError ? "…" : null}
        {data === null ? <Badge tone="good">ready</Badge> : null}
        {typeof data === "string" ? <Badge tone="bad">not ready</Badge> : null}
      </p>
      <p className="hint">{typeof data === "string" ? data : "The service and its database answer."}</p>
    </section>
  );
}
