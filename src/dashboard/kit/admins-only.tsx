import type { ReactNode } from "react";
import { useSession } from "../session.ts";
import { Empty } from "./states.tsx";

/** Shows its content to admins; others read that only admins may use it. The service refuses their calls as well. */
export function AdminsOnly({ children }: { readonly children: ReactNode }) {
  const { role } = useSession().session;
  if (role === "admin") return children;
  return (
    <Empty title="This screen is for admins">You are signed in as {role}. Sign in with a key of the role admin.</Empty>
  );
}
