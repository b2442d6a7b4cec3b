import type { Verification } from '../verify.ts';
import { verifyJwt } from './jwt.ts';
import { verifyMessage } from './message-signatures.ts';
import type { StandardRequest, StandardRule } from './standard.ts';

/** Verifies a delivery by the standard that its trigger names. Rejects if keys cannot be fetched. */
export function verifyStandard(rule: StandardRule, request: StandardRequest): Promise<Verification> {
  return rule.standard === 'Jwt' ? verifyJwt(rule, request) : verifyMessage(rule, request);
}
