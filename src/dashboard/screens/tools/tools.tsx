import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import { type ListToolsResponse, type Tool, ToolService } from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { DialogButton } from "../../kit/dialog.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/tools.css";
import { Paste } from "./paste.tsx";
import { ToolView } from "./tool-view.tsx";

const PAGE_SIZE = 100;
const ROW_HEIGHT = 64;
/** Characters of a description shown in the list. */
const MAX_DESCRIPTION = 300;
const COLUMNS: readonly Column<Tool>[] = [
  {
    title: "Name",
    sortBy: ({ name }) => name,
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
  {
    title: "Arguments",
    cell: ({ arguments: paths }) => paths.length.toLocaleString("en"),
    isNumber: true,
    sortBy: ({ arguments: paths }) => paths.length,
  },
  { title: "Version", cell: ({ version }) => version, isNumber: true, sortBy: ({ version }) => version },
  {
    title: "Registered",
    cell: ({ registeredAt }) => <Time at={registeredAt} />,
    sortBy: ({ registeredAt }) => (registeredAt === undefined ? 0 : timestampMs(registeredAt)),
  },
];
const toolsOf = ({ tools }: ListToolsResponse): readonly Tool[] => tools;

/** Registered tools, by name. */
export function Tools({ id }: ScreenProps) {
  if (id !== undefined) return <ToolView name={id} />;
  return <ToolList />;
}

function ToolList() {
  const mayChange = useMayChange();
  return (
    <ScreenFrame
      name="tools"
      title="Tools"
      actions={
        mayChange ? (
          <DialogButton action="paste" tone="primary" label="Paste a definition">
            {(close) => <Paste onClose={close} />}
          </DialogButton>
        ) : undefined
      }
    >
      <PagedList
        pages={usePages(ToolService.method.listTools, { pageSize: PAGE_SIZE }, toolsOf)}
        loading="the tools"
        empty={
          <Empty title="No tool is registered">
            Paste what describes a tool for MCP, OpenAI or Anthropic: rules then know its arguments and their types.
          </Empty>
        }
        idOf={({ name }) => name}
        rowHeight={ROW_HEIGHT}
        label="Tools"
        columns={COLUMNS}
        className="tools"
        rowClassName="tool"
      />
    </ScreenFrame>
  );
}
