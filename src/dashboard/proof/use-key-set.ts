import { useQuery } from "@tanstack/react-query";

const KEY_SET = "/.well-known/jwks.json";

async function readKeySet(): Promise<unknown> {
  const response = await fetch(KEY_SET);
  if (!response.ok) throw new Error(`${KEY_SET} answered ${response.status}`);
  return response.json();
}

/** Reads the published keys of the service. */
export const useKeySet = () => useQuery({ queryKey: ["key set"], queryFn: readKeySet });
