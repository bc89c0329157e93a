import { useQuery } from "@connectrpc/connect-query";
import { RevocationService } from "../../../../gen/agentcontrol/v1/revocation_service_pb.js";
import { Fault, Loading } from "../../kit/states.tsx";
import { CertificateCard } from "./certificate-card.tsx";

/** Grey lines before the certificate is read. */
const LINES = 8;

interface RevocationOfProps {
  readonly agentId: string;
  /** Id of the revocation, if it was made on this screen. */
  readonly revocationId: string | undefined;
}

/** Certificate of a revoked agent. It takes the focus right after the revocation. */
export function RevocationOf({ agentId, revocationId }: RevocationOfProps) {
  const preview = useQuery(
    RevocationService.method.previewRevocation,
    { agentId },
    { enabled: revocationId === undefined, staleTime: 0 },
  );
  const known = revocationId ?? preview.data?.revocationId;
  const query = useQuery(
    RevocationService.method.getRevocation,
    { revocationId: known ?? "" },
    { enabled: known !== undefined },
  );
  const error = preview.error ?? query.error;
  if (error !== null) return <Fault error={error} onRetry={() => void (preview.error ? preview : query).refetch()} />;
  const certificate = query.data?.certificate;
  if (certificate === undefined) {
    return (
      <div className="card certificate-place">
        <Loading what="the certificate" lines={LINES} />
      </div>
    );
  }
  return (
    <CertificateCard
      certificate={certificate}
      revokedByName={query.data?.revokedByName}
      isValidForService={query.data?.signatureValid ?? false}
      takesFocus={revocationId !== undefined}
    />
  );
}
