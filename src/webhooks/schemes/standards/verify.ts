import type { Verification } from '../verify.ts';
import { verifyJwt } from './jwt.ts';
import { verifyMessage } from './message-signatures.ts';
import type { StandardRequest, StandardRule } from './standard.ts';

/** Verifies a delivery as the standard says that its trigger names. Rejects where keys cannot be had. */
export function verifyStandard(rule: StandardRule, request: StandardRequest): Promise<Verification> {
  return rule.standard === 'Jwt' ? verifyJwt(rule, request) : verifyMessage(rule, request);
}
