import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import type { ToolArgument } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import {
  type Tool,
  type ToolProvenance,
  ToolService,
  ToolSource,
} from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { JsonView } from "../../kit/json-view.tsx";
import { Message } from "../../kit/message.tsx";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { ArgumentRows, rangeText } from "./argument-rows.tsx";
import { UsedBy } from "./used-by.tsx";

const SOURCES: Readonly<Record<number, string>> = {
  [ToolSource.API]: "over the API",
  [ToolSource.PASTE]: "by a paste",
  [ToolSource.GATEWAY]: "by the gateway",
};

const TOOLS: ScreenPlace = { title: "Tools", href: "/tools" };

/** One tool: its arguments, its users, and the diff of its versions. */
export function ToolView({ name }: { readonly name: string }) {
  const query = useQuery(ToolService.method.getTool, { name });
  const tool = query.data?.tool;
  return (
    <ScreenFrame name="tool" title={shownText(name)} within={TOOLS}>
      {query.isPending ? <Loading what="the tool" /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {tool === undefined ? null : (
        <>
          <section className="card stack" aria-label="The tool">
            <p>
              <Shown text={tool.description === "" ? "It has no description." : tool.description} />
            </p>
            <p className="hint">
              Version {tool.version}, registered <Time at={tool.registeredAt} /> {SOURCES[tool.source] ?? ""}; SHA-256
              of the schema <code title={tool.digest}>{tool.digest.slice(0, 12)}…</code>
            </p>
            {tool.warnings.map(({ path, message }) => (
              <p key={path}>
                <code>{path}</code> <Message text={message} />
              </p>
            ))}
          </section>
          <section className="card stack" aria-label="Arguments">
            <h2>Arguments</h2>
            <ArgumentRows rows={tool.arguments} />
            <details>
              <summary>The whole schema</summary>
              <JsonView value={tool.inputSchema ?? {}} />
            </details>
          </section>
          {tool.provenance === undefined ? null : <Provenance declared={tool.provenance} />}
          <UsedBy tool={tool.name} />
          <Versions versions={query.data?.versions ?? []} />
        </>
      )}
    </ScreenFrame>
  );
}

const PROVENANCE = [
  ["Trusted members of results", "trustedFields"],
  ["Members of results that others write", "freeFields"],
  ["Arguments that name what a call makes", "sessionArguments"],
  ["Members of results that name what a call made", "sessionFields"],
] as const;

/** Declaration of what the tool's results and arguments mean for provenance. */
function Provenance({ declared }: { readonly declared: ToolProvenance }) {
  return (
    <section className="card stack" aria-label="Provenance">
      <h2>Provenance</h2>
      {PROVENANCE.map(([title, member]) => {
        const paths = declared[member];
        if (paths.length === 0) return null;
        return (
          <div key={member} className="stack" data-provenance={member}>
            <p className="hint">{title}</p>
            <ul>
              {paths.map((path) => (
                <li key={path}>
                  <code>
                    <Shown text={path} />
                  </code>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </section>
  );
}

function Versions({ versions }: { readonly versions: readonly Tool[] }) {
  const [from, setFrom] = useState(versions[1]?.version);
  const newest = versions[0];
  const older = versions.find(({ version }) => version === from);
  return (
    <section className="card stack" aria-label="Versions">
      <h2>Versions</h2>
      <ul className="stack">
        {versions.map(({ version, registeredAt, source }) => (
          <li key={version} className="row" data-id={`version-${version}`}>
            <span>version {version}</span>
            <span className="hint">
              <Time at={registeredAt} /> {SOURCES[source] ?? ""}
            </span>
            {version === newest?.version ? (
              <span className="hint">in force</span>
            ) : (
              <button type="button" className="link" data-action="compare" onClick={() => setFrom(version)}>
                compare with the one in force
              </button>
            )}
          </li>
        ))}
      </ul>
      {older === undefined || newest === undefined ? null : <Difference older={older} newer={newest} />}
    </section>
  );
}

const textOf = (argument: ToolArgument): string =>
  [argument.types.join(" or "), argument.required ? "required" : "", rangeText(argument), argument.description ?? ""]
    .filter((part) => part !== "")
    .join("; ");

/** Diff of two versions by argument. */
function Difference({ older, newer }: { readonly older: Tool; readonly newer: Tool }) {
  const before = new Map(older.arguments.map((each) => [each.path, textOf(each)]));
  const after = new Map(newer.arguments.map((each) => [each.path, textOf(each)]));
  const paths = [...new Set([...before.keys(), ...after.keys()])].filter(
    (path) => before.get(path) !== after.get(path),
  );
  return (
    <div className="stack" data-difference>
      <h3>
        From version {older.version} to {newer.version}
      </h3>
      {paths.length === 0 ? (
        <p className="hint">No argument changed; descriptions or other members of the schema did.</p>
      ) : null}
      <ul className="stack">
        {paths.map((path) => (
          <li key={path} data-argument={path}>
            <code>
              <Shown text={path} />
            </code>{" "}
            {before.has(path) ? (
              <del>
                <Shown text={before.get(path) ?? ""} />
              </del>
            ) : (
              <strong>added </strong>
            )}{" "}
            {after.has(path) ? (
              <ins>
                <Shown text={after.get(path) ?? ""} />
              </ins>
            ) : (
              <strong>removed</strong>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}
