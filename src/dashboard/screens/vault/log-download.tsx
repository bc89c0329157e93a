import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useEffect, useRef, useState } from "react";
import { VaultService } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { logBundleHead } from "../../../verify/bundle.ts";
import { verifyCheckpoint } from "../../../verify/checkpoint.ts";
import { publicKeysFromJwks } from "../../../verify/public-key.ts";
import { Button } from "../../kit/button.tsx";
import { saveFile } from "../../kit/download.tsx";
import { Fault } from "../../kit/states.tsx";
import { logBundleLine } from "../../proof/bundle-text.ts";
import type { CheckpointProps } from "./checkpoint-card.tsx";

/** Maximum number of entries that fit into a browser's memory. */
const MAX_ENTRIES = 200_000;
const PAGE_SIZE = 500;

/** Saves the whole log as a bundle, for `agentctl vault verify`. */
export function LogDownload({ checkpoint, jwks }: CheckpointProps) {
  const transport = useTransport();
  const [read, setRead] = useState<number>();
  const [error, setError] = useState<unknown>();
  const stopped = useRef<AbortController>(undefined);
  useEffect(() => () => stopped.current?.abort(), []);
  const size = Number(checkpoint.treeSize);
  const save = (): void => {
    const controller = new AbortController();
    stopped.current = controller;
    setError(undefined);
    setRead(0);
    const job = { client: createClient(VaultService, transport), signal: controller.signal, onRead: setRead };
    bundleOf({ checkpoint, jwks }, job)
      .then((parts) => saveFile(`log-${size}.jsonl`, parts, "application/x-ndjson"))
      .catch((fault: unknown) => controller.signal.aborted || setError(fault))
      .finally(() => setRead(undefined));
  };
  return (
    <section className="card stack" aria-labelledby="log-title">
      <h2 id="log-title">The whole log</h2>
      {size > MAX_ENTRIES ? (
        <p>
          The log has more than {MAX_ENTRIES.toLocaleString("en")} entries. Export it with{" "}
          <code>agentctl vault export</code>.
        </p>
      ) : (
        <p className="hint">
          A file of every entry with the signed note. Verify it anywhere:{" "}
          <code>agentctl vault verify log-{size}.jsonl</code>
        </p>
      )}
      {error === undefined ? null : <Fault error={error} />}
      <div className="row" role="status">
        <Button action="download-log" onClick={save} isBusy={read !== undefined} disabled={size > MAX_ENTRIES}>
          Download the log
        </Button>
        {read === undefined ? null : (
          <>
            <span>
              {read.toLocaleString("en")} of {size.toLocaleString("en")} entries
            </span>
            <Button action="cancel" tone="quiet" onClick={() => stopped.current?.abort()}>
              Cancel
            </Button>
          </>
        )}
      </div>
    </section>
  );
}

interface Job {
  readonly client: ReturnType<typeof createClient<typeof VaultService>>;
  readonly signal: AbortSignal;
  readonly onRead: (count: number) => void;
}

/** Reads the log of a checkpoint as the parts of a bundle. */
async function bundleOf({ checkpoint, jwks }: CheckpointProps, { client, signal, onRead }: Job): Promise<string[]> {
  const { note, treeSize } = checkpoint;
  const { key } = await verifyCheckpoint(note, (await publicKeysFromJwks(jwks)) ?? []);
  const parts = [logBundleHead(note, [key])];
  let count = 0;
  for (let pageToken: string | undefined = ""; pageToken !== undefined; ) {
    const request = { from: 0n, to: treeSize, pageSize: PAGE_SIZE, pageToken };
    const page: Awaited<ReturnType<typeof client.listEntries>> = await client.listEntries(request, { signal });
    parts.push(page.entries.map(logBundleLine).join(""));
    count += page.entries.length;
    onRead(count);
    pageToken = page.nextPageToken;
  }
  if (BigInt(count) !== treeSize) throw new Error(`the service gave ${count} of ${treeSize} entries`);
  return parts;
}
