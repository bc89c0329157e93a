import { useState } from "react";
import { Link } from "wouter";
import { type ListToolsResponse, type Tool, ToolService } from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { type Column, ColumnList } from "../../kit/lists/virtual-list.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/tools.css";
import { Paste } from "./paste.tsx";
import { ToolView } from "./tool-view.tsx";

const PAGE_SIZE = 100;
const ROW_HEIGHT = 64;
/** Characters of a description in the list. */
const MAX_DESCRIPTION = 300;
const COLUMNS: readonly Column<Tool>[] = [
  {
    title: "Name",
    cell: ({ name }) => (
      <Link href={`/tools/${encodeURIComponent(name)}`} className="tool-name">
        <Shown text={name} />
      </Link>
    ),
  },
  {
    title: "Description",
    cell: ({ description }) =>
      description === "" ? null : (
        <p className="tool-description">
          <Shown text={description.slice(0, MAX_DESCRIPTION)} />
        </p>
      ),
  },
  { title: "Arguments", cell: ({ arguments: paths }) => paths.length.toLocaleString("en"), isNumber: true },
  { title: "Version", cell: ({ version }) => version, isNumber: true },
  { title: "Registered", cell: ({ registeredAt }) => <Time at={registeredAt} /> },
];
const toolsOf = ({ tools }: ListToolsResponse): readonly Tool[] => tools;

/** The tools whose calls are decided, by name. */
export function Tools({ id }: ScreenProps) {
  if (id !== undefined) return <ToolView name={id} />;
  return <ToolList />;
}

function ToolList() {
  const mayChange = useMayChange();
  const [isPasting, setIsPasting] = useState(false);
  const { items, isPending, error, readMore, readAgain } = usePages(
    ToolService.method.listTools,
    { pageSize: PAGE_SIZE },
    toolsOf,
  );
  const close = (): void => {
    setIsPasting(false);
    readAgain();
  };
  return (
    <ScreenFrame
      name="tools"
      title="Tools"
      actions={
        mayChange ? (
          <Button action="paste" tone="primary" onClick={() => setIsPasting(true)}>
            Paste a definition
          </Button>
        ) : undefined
      }
    >
      {isPending ? <Loading what="the tools" /> : null}
      {error === null ? null : <Fault error={error} onRetry={readAgain} />}
      {!isPending && error === null && items.length === 0 ? (
        <Empty title="No tool is registered">
          Paste what describes a tool for MCP, OpenAI or Anthropic: rules then know its arguments and their types.
        </Empty>
      ) : null}
      {items.length === 0 ? null : (
        <ColumnList
          items={items}
          idOf={({ name }) => name}
          rowHeight={ROW_HEIGHT}
          label="Tools"
          onEnd={readMore}
          columns={COLUMNS}
          className="tools"
          rowClassName="tool"
        />
      )}
      {isPasting ? <Paste onClose={close} /> : null}
    </ScreenFrame>
  );
}
