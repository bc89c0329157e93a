import { dateOfBirth } from "./date-of-birth.ts";
import type { Detector } from "./detector.ts";
import { email } from "./email.ts";
import { iban } from "./iban.ts";
import { ipAddress } from "./ip-address.ts";
import { nationalId } from "./national-id.ts";
import { paymentCard } from "./payment-card.ts";
import { phone } from "./phone.ts";
import { usSsn } from "./us-ssn.ts";

export type { AtSignDetector, Detector, NumberDetector } from "./detector.ts";

/** Every detector. Of two that find the same text the first wins. */
export const DETECTORS: readonly Detector[] = [
  email,
  iban,
  paymentCard,
  usSsn,
  dateOfBirth,
  nationalId,
  phone,
  ipAddress,
];
