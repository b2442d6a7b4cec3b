import type { WebhookInputs } from '../gate.ts';
import type { SignatureSpec } from './spec.ts';
import { bearerPlace } from './standards/standard.ts';

/** Schemes that send the key itself and sign nothing of the delivery. */
export const TOKEN_SCHEMES = ['Token', 'Basic'] as const;
export type TokenScheme = (typeof TOKEN_SCHEMES)[number];

/** Where a sender without its own built-in publisher puts its token. */
export function tokenSpec(name: TokenScheme, inputs: WebhookInputs): SignatureSpec {
  if (name === 'Basic') return BASIC;
  const { header, prefix } = bearerPlace(inputs);
  return { ...BEARER, headers: [{ signature: header }], headerValuePrefix: prefix };
}

const BEARER: SignatureSpec = {
  name: 'Token',
  keyIsChosen: true,
  headers: [{ signature: 'Authorization' }],
  headerValuePrefix: 'Bearer ',
  algorithm: 'token',
  encoding: 'hexLower',
  signs: [],
  source: 'RFC 6750, section 2.1',
};

const BASIC: SignatureSpec = {
  ...BEARER,
  name: 'Basic',
  headerValuePrefix: 'Basic ',
  isUserAndPassword: true,
  source: 'RFC 7617',
};
