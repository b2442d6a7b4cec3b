import type { Delivery } from '../../model/delivery.ts';
import { verifyJwt } from './jwt.ts';
import { verifyMessage } from './message-signatures.ts';
import type { StandardRule } from './standard.ts';
import type { Verification } from './verify.ts';
import type { VerifyingKey } from './verifying-keys.ts';

/** The keys of a trigger, or those of a publisher's set; several where the one that is meant is not told. */
export interface StandardKeys {
  readonly current: readonly VerifyingKey[];
  readonly previous: readonly VerifyingKey[];
}

export interface StandardRequest {
  readonly delivery: Delivery;
  /** Absolute, as the publisher called it. */
  readonly publicUrl: string;
  /** By how much a time limit that the publisher set may be passed. */
  readonly leewaySeconds: number;
  /** Those of a set may have been asked for by the id that the signer names; the trigger's own are always the same. */
  readonly keysFor: (id: string | undefined) => Promise<StandardKeys>;
}

/** Verifies a delivery as the standard says that its trigger names. Rejects where keys cannot be had. */
export function verifyStandard(rule: StandardRule, request: StandardRequest): Promise<Verification> {
  return rule.standard === 'Jwt' ? verifyJwt(rule, request) : verifyMessage(rule, request);
}
